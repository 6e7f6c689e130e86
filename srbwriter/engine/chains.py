"""The sampler chain of one branch, and what is kept of it while the branch rests.

A chain has chance of its own (where its random numbers have got to) and may have learnt (mirostat's and
adaptive-p's idea of the text). A branch that goes on goes on with it: made anew from the same seed it would
draw the same numbers again. Knows samplers as handles; what they are made of is :mod:`.sampling`'s.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .native import samplers as native
from .native.library import library
from .native.samplers import NEGATIVE_INFINITY, Sampler

_MASK64 = 0xFFFFFFFFFFFFFFFF
_BYTES, _BYTES_A_TOKEN = 12_000, 16  # of a chain: two Mersenne twisters; buffers and counts of the history

State: TypeAlias = "tuple[object, ...]"
"""Name and arguments of a sampler with chance or learning of its own; empty for one that has neither."""


def derive_seed(seed: int, k: int) -> int:
    """The k-th seed that follows from ``seed``, for one sampler; never 0xFFFFFFFF, llama.cpp's "random".

    SplitMix64 (Steele, Lea and Flood, 2014), so that neighbouring seeds give unrelated streams.
    """
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return (z ^ (z >> 31)) & 0xFFFFFFFE


class Chain:
    """The sampler of one branch. ``pointer`` goes to ``llama_sampler_sample``, which also accepts.

    Args:
        members: the samplers in order, the selector last; the chain owns them.
        states: what each of ``members`` has that must not be lost.
        memories: those of ``members`` that look back at the text.
        length: how many tokens they look back.
        learns: whether the chain has to be told of tokens that were picked.
    """

    __slots__ = (
        "__weakref__",
        "_accept",
        "_free",
        "_members",
        "_memories",
        "_n_vocab",
        "_states",
        "length",
        "pointer",
        "rests",
    )

    def __init__(
        self, members: Sequence[Sampler], states: Sequence[State], memories: Sequence[Sampler], n_vocab: int,
        *, length: int, learns: bool,
    ) -> None:  # fmt: skip
        self.pointer: Sampler = native.join(members[:-1], members[-1])
        self._free = weakref.finalize(self, native.free, self.pointer)
        self._free.atexit = False
        self._members, self._states, self._memories = list(members), list(states), tuple(memories)
        self._n_vocab = n_vocab
        self.length = length
        self.rests = 0  # number of its rest in :class:`Resting`; 0 while it is in use
        self._accept = library().llama_sampler_accept if learns else None

    def pick(self, logits: NDArray[np.float32]) -> int:
        """Sample from a row of logits, which stays as it is; :meth:`accept` the token afterwards.

        Tokens at minus infinity are not chosen while another is left; when the samplers leave nothing,
        the likeliest token of the row is taken.
        """
        token = native.candidates(self._n_vocab).pick(self.pointer, logits)
        return token if token >= 0 else int(np.argmax(np.nan_to_num(logits, nan=NEGATIVE_INFINITY)))

    def accept(self, token: int) -> None:
        """Remember a token that was picked; not one from ``llama_sampler_sample``."""
        if self._accept is not None:
            self._accept(self.pointer, token)

    def remember(self, ids: Sequence[int]) -> None:
        """Look back at the end of ``ids`` instead of what was seen so far. Chance goes on as it is."""
        for sampler in self._memories:
            native.reset(sampler)
            native.accept_all(sampler, ids[-self.length :])

    def give(self, wanted: Iterable[State]) -> Mapping[State, Sampler]:
        """Hand over the samplers with these states; the chain can only be closed afterwards."""
        given: dict[State, Sampler] = {}
        for state in wanted:
            if state and state in self._states and state not in given:
                place = self._states.index(state)
                given[state] = native.take_out(self.pointer, place)
                del self._states[place], self._members[place]
        return given

    @property
    def size(self) -> int:
        """Bytes it takes, about."""
        return _BYTES + _BYTES_A_TOKEN * self.length

    def close(self) -> None:
        """Free the native chain; closing twice does nothing."""
        self.pointer = None
        self._free()


class Resting:
    """Chains of branches that have ended and may go on, within a budget of bytes: the oldest are let go.

    Belongs to the engine's thread. Holds none of them: one whose branch nobody knows any more is freed.
    """

    def __init__(self, most: int = 32 * 2**20) -> None:
        self._most = most
        self._bytes = 0
        self._count = 0
        self._chains: list[tuple[weakref.ref[Chain], int, int]] = []  # with the number of its rest, and bytes

    def add(self, chain: Chain) -> None:
        """``chain`` is not in use until somebody sets its ``rests`` to 0."""
        self._count += 1
        chain.rests = self._count
        self._chains.append((weakref.ref(chain), self._count, chain.size))
        self._bytes += chain.size
        if self._bytes > self._most:
            self._let_go()

    def _let_go(self) -> None:
        known = [(ref(), number, size) for ref, number, size in self._chains]
        still = [(c, number, size) for c, number, size in known if c is not None and c.rests == number]
        total = sum(size for _, _, size in still)
        while total > self._most // 2:
            chain, _, size = still.pop(0)
            chain.close()
            total -= size
        self._chains = [(weakref.ref(chain), number, size) for chain, number, size in still]
        self._bytes = total
