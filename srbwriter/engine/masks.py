"""Masks of the vocabulary, and what is read of a model to make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

_NEGATIVE_INFINITY = np.float32(-np.inf)


class ConstraintModel(Protocol):
    """What constraints need to know of a model."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def eog(self) -> frozenset[int]: ...
    @property
    def special_pieces(self) -> Sequence[bytes]: ...  # text of every token, control tokens written out
    @property
    def pieces(self) -> PieceBytes: ...  # the same with nothing for control tokens
    def token(self, text: str) -> int | None: ...


_Piece: TypeAlias = bytes


class PieceBytes(Protocol):
    """The bytes that each token writes."""

    @property
    def bytes(self) -> Sequence[_Piece]: ...


def apply_bits(bits: bytes, logits: NDArray[np.float32]) -> bool:
    """Set the logits of tokens whose bit is 0 to minus infinity; False when none is left."""
    allowed = np.unpackbits(np.frombuffer(bits, np.uint8), count=logits.size, bitorder="little")
    logits[allowed == 0] = _NEGATIVE_INFINITY
    return bool(logits.max() > _NEGATIVE_INFINITY)
