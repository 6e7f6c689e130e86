"""What the tokens of a vocabulary write."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def fingerprint(pieces: Sequence[bytes]) -> str:
    """Names a vocabulary by all its tokens: equal ids mean equal text under equal fingerprints."""
    digest = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        digest.update(len(piece).to_bytes(4, "little") + piece)
    return digest.hexdigest()


class Pieces:
    """What every token of a vocabulary writes; built once per model.

    ``text[i]`` is None where the bytes of token ``i`` are not whole UTF-8 characters.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.bytes: list[bytes] = list(pieces)
        self.text: list[str | None] = [_whole(piece) for piece in self.bytes]


def _whole(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None
