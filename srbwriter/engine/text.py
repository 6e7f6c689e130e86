"""What the tokens of a vocabulary write."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Sequence

_new_decoder = codecs.getincrementaldecoder("utf-8")


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


def whole_tokens(pieces: Iterable[bytes]) -> int:
    """How many of the tokens that write ``pieces`` there are before a character that breaks off."""
    decoder, whole = _new_decoder("replace"), 0
    for count, piece in enumerate(pieces, 1):
        decoder.decode(piece)
        if not decoder.getstate()[0]:
            whole = count
    return whole


def _whole(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None
