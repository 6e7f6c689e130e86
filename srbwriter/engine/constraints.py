"""Constraints on a branch's next token: the protocol, and prefixes that tokens must spell.

Knows no chains and no scheduling; a constraint stays outside the sampler chain. Grammars, JSON schemas and
regular expressions live in :mod:`srbwriter.engine.grammar`, which is imported for the first request with one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .parameters import notation
from .text import Pieces
from .types import Sampling

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
    def pieces(self) -> Pieces: ...  # the same with nothing for control tokens
    def token(self, text: str) -> int | None: ...


class Constraint(Protocol):
    """State of one branch under one rule."""

    @property
    def finished(self) -> bool:
        """Nothing can follow any more."""
        ...

    @property
    def exhausted(self) -> bool:
        """Whether it ran into limits, and can say nothing any more."""
        ...

    def mask(self, logits: NDArray[np.float32]) -> bool:
        """Set the logits of forbidden tokens to minus infinity, in place; False when none is left."""
        ...

    def allows(self, token: int) -> bool:
        """Whether this token may come next. Much cheaper than a mask."""
        ...

    def accept(self, token: int) -> None:
        """Advance by a token that :meth:`allows` or :meth:`mask` left; raises ValueError for others."""
        ...

    def fork(self) -> Constraint:
        """An independent copy in the same state."""
        ...

    def trouble(self) -> str:
        """Why the text must not end where no token is allowed any more, in words; nothing if it may."""
        ...


def compile_constraint(sampling: Sampling, model: ConstraintModel) -> Constraint | None:
    """The constraint that ``sampling`` asks for, at its beginning; fork it for every branch.

    The first one of a model costs up to a second for a large vocabulary. Raises InvalidRequest when there
    is more than one or when it cannot be compiled.
    """
    name = notation(sampling)
    if name is None:
        return None
    from .grammar import compile_grammar  # llguidance takes long to load, and few requests need it

    return compile_grammar(name, getattr(sampling, name), model)


class PieceIndex:
    """The pieces of a vocabulary in byte order, to find those that begin alike. Built once per model."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        order = sorted(range(len(pieces)), key=pieces.__getitem__)
        self._order = np.array(order, dtype=np.int64)
        self._sorted = [pieces[i] for i in order]

    def beginning_with(self, prefix: bytes) -> NDArray[np.int64]:
        """Ids of the tokens whose bytes begin with ``prefix``."""
        end = _successor(prefix)
        last = bisect_left(self._sorted, end) if end else len(self._sorted)
        return self._order[bisect_left(self._sorted, prefix) : last]

    def spelling(self, piece: bytes) -> NDArray[np.int64]:
        """Ids of the tokens whose bytes are exactly ``piece``."""
        first = bisect_left(self._sorted, piece)
        last = first
        while last < len(self._sorted) and self._sorted[last] == piece:
            last += 1
        return self._order[first:last]


def _successor(prefix: bytes) -> bytes:
    """The first byte string after all that begin with ``prefix``; empty when there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else b""


class PrefixConstraint:
    """The next tokens spell ``prefix`` and may go beyond it; then everything is allowed.

    This is token healing: the end of what someone typed is given back to the model, which completes it with
    the token it would have written there itself.
    """

    def __init__(self, index: PieceIndex, prefix: bytes) -> None:
        self._index = index
        self._rest = prefix

    @property
    def finished(self) -> bool:
        """Whether the prefix is complete; the constraint allows every token from then on."""
        return not self._rest

    @property
    def exhausted(self) -> bool:
        return False

    def mask(self, logits: NDArray[np.float32]) -> bool:
        if self._rest:
            shorter = (self._index.spelling(self._rest[:k]) for k in range(1, len(self._rest)))
            allowed = np.concatenate([self._index.beginning_with(self._rest), *shorter])
            kept = logits[allowed]
            logits.fill(_NEGATIVE_INFINITY)
            logits[allowed] = kept
        return bool(logits.max() > _NEGATIVE_INFINITY)

    def allows(self, token: int) -> bool:
        if not self._rest:
            return True
        piece = self._index.pieces[token]
        return bool(piece) and (piece.startswith(self._rest) or self._rest.startswith(piece))

    def accept(self, token: int) -> None:
        if not self.allows(token):
            raise ValueError(f"token {token} does not spell {self._rest!r}")
        if self._rest:
            self._rest = self._rest[len(self._index.pieces[token]) :]

    def fork(self) -> PrefixConstraint:
        return PrefixConstraint(self._index, self._rest)

    def trouble(self) -> str:
        return ""
