"""A toy vocabulary with the awkward sides of real ones: merged words, leading spaces, split characters."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Sequence

from srbwriter.story.context import Tokenizer
from srbwriter.story.model import Span

VOCABULARY = "toy"

_PIECES = re.compile(r"\n+| ?[A-Za-z0-9]{1,6}|[^A-Za-z0-9\n]", re.ASCII)


class _Vocabulary:
    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._pieces: list[bytes] = []

    def tokenize(self, text: str) -> list[int]:
        return [self._id(piece) for match in _PIECES.finditer(text) for piece in _bytes_of(match.group())]

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        return [self._pieces[index] for index in ids]

    def sizes(self, vocab: str, ids: Sequence[int]) -> list[int] | None:
        if vocab != VOCABULARY:
            return None
        decoder = getincrementaldecoder("utf-8")("replace")
        return [len(decoder.decode(piece)) for piece in self.pieces(ids)]

    def _id(self, piece: bytes) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._ids[piece]


def _bytes_of(piece: str) -> list[bytes]:
    """Characters outside ASCII become one token per byte, as in byte-level vocabularies."""
    encoded = piece.encode("utf-8", "surrogatepass")
    return [encoded] if encoded.isascii() else [bytes([byte]) for byte in encoded]


def toy_tokenizer() -> Tokenizer:
    vocabulary = _Vocabulary()
    return Tokenizer(vocabulary.tokenize, vocabulary.tokenize, vocabulary.sizes, VOCABULARY)


def a_node(
    name: str, text: str, ids: Sequence[int] = (), vocab: str = "", lead: str = ""
) -> tuple[str, list[Span]]:
    """A node of one span, as a path has it."""
    return name, [Span(text, "model" if ids else "writer", tuple(ids), vocab, lead=lead)]
