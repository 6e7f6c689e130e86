"""Constraints on a branch's next token, and those by a prefix that tokens must spell.

Knows no chains and no scheduling; a constraint stays outside the sampler chain. Grammars, JSON schemas and
regular expressions live in :mod:`srbwriter.engine.grammar`, which is imported for the first request with one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .parameters import notation
from .types import Sampling

if TYPE_CHECKING:
    from .grammar import GrammarConstraint
    from .model import Model

_NEGATIVE_INFINITY = np.float32(-np.inf)


Constraint: TypeAlias = "GrammarConstraint | PrefixConstraint"
"""State of one branch under one rule.

``finished``: nothing can follow any more. ``mask`` sets the logits of forbidden tokens to minus infinity, and
is False when none is left. ``allows`` checks one token, much cheaper; ``accept`` advances by it. ``fork``
copies the state. ``trouble`` says why the text must not end where no token is allowed, nothing if it may.
"""


def compile_constraint(sampling: Sampling, model: Model) -> Constraint | None:
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
        first = bisect_left(self._sorted, prefix)
        last = bisect_right(self._sorted, prefix, first, key=lambda piece: piece[: len(prefix)])
        return self._order[first:last]

    def spelling(self, piece: bytes) -> NDArray[np.int64]:
        """Ids of the tokens whose bytes are exactly ``piece``."""
        return self._order[bisect_left(self._sorted, piece) : bisect_right(self._sorted, piece)]


class PrefixConstraint:
    """The next tokens spell ``prefix`` and may go beyond it; then everything is allowed.

    This is token healing: the end of what someone typed is given back to the model, which completes it with
    the token it would have written there itself.
    """

    def __init__(self, index: PieceIndex, prefix: bytes) -> None:
        self._index = index
        self._rest = prefix

    exhausted = False

    @property
    def finished(self) -> bool:
        """Whether the prefix is complete; the constraint allows every token from then on."""
        return not self._rest

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
        if self._rest:
            self._rest = self._rest[len(self._index.pieces[token]) :]

    def fork(self) -> PrefixConstraint:
        return PrefixConstraint(self._index, self._rest)

    def trouble(self) -> str:
        return ""
