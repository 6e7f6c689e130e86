"""Sequences that a caller evaluates, samples and forks one call at a time, in a loop of its own.

A sequence is a demand on the token tree, like the branch of a request: the same decoder evaluates it on the
same cells, so tokens that a sequence or a branch has evaluated are not evaluated again. Calls run between the
steps of requests. Every call is checked, in any order of calls; none can end the process.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache, partial
from typing import SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .limits import check_ids
from .model import Model
from .parameters import notation
from .sampling import Chain, SamplerTemplate, check_sampling
from .scheduler import Scheduler
from .seeds import derive_seed
from .tree import Demand
from .types import ContextOverflow, InvalidRequest, NoRoom, NotANumber, NotSupported, Priority, Sampling

_TEMPLATES = 32  # settings whose sampler templates are kept

Logits: TypeAlias = "NDArray[np.float32]"


class _Sequence(Demand):
    """Tokens and their sampler. The first of ``ids``, up to the sequence's tip in the tree, are evaluated."""

    __slots__ = ("accepted", "chain", "ids", "logits", "sampling")

    def __init__(self, sampling: Sampling, chain: Chain) -> None:
        super().__init__(Priority.NORMAL, "")
        self.ids: list[int] = []
        self.accepted: list[int] = []  # by the sampler, and not evaluated yet
        self.logits: Logits | None = None  # after the last of ids
        self.sampling, self.chain = sampling, chain

    @property
    def path(self) -> list[int]:
        return self.ids

    def update_history(self) -> None:
        """Let the sampler look back at the tokens as they are now."""
        self.chain.remember([*self.ids, *self.accepted])


class Sequences:
    """Sequences of one engine that has no thread of its own. Reached as :attr:`Engine.sequences`.

    A sequence is a number, which is never given twice. It holds its cells until it is truncated or deleted;
    where that leaves no room for others, calls raise NoRoom. All methods raise InvalidRequest for a
    number that is none, EngineClosed, and EngineError within a callback of the engine.

    Args:
        window: tokens of one sequence at most.
        turn: the right to use the context, between two steps.
        seed: where the seeds of sequences come from that are given none.
    """

    def __init__(
        self, model: Model, scheduler: Scheduler, window: int,
        turn: Callable[[], AbstractContextManager[None]], seed: int,
    ) -> None:  # fmt: skip
        self.model, self.scheduler, self.window = model, scheduler, window
        self.context, self.cache = scheduler.context, scheduler.cache
        self._turn, self._seed = turn, seed
        self._sequences: dict[int, _Sequence] = {}
        self._numbers = itertools.count()
        template = partial(SamplerTemplate, model=model, n_ctx=self.context.cells)
        self._template = lru_cache(_TEMPLATES)(template)
        self.cache.on_clear = self._forget_cells

    def tokens(self, seq: int) -> tuple[int, ...]:
        """Return the tokens of a sequence."""
        return tuple(self._find(seq).ids)

    # ---- making and ending

    def new_seq(self, sampling: Sampling | None = None, seed: int | None = None) -> int:
        """Make an empty sequence. ``seed`` is that of its sampler; None takes the sampling's, or makes one.

        Raises InvalidRequest for settings that mean nothing, NotSupported for a grammar, NoRoom where there
        are as many sequences as the context takes.
        """
        with self._turn():
            return self._add(sampling or Sampling(), seed)

    def fork(self, seq: int, sampling: Sampling | None = None, seed: int | None = None) -> int:
        """Make a sequence with the same tokens, on the same cells; nothing is evaluated or copied.

        Its sampler looks back at the same tokens, with a seed of its own. Raises what :meth:`new_seq`
        raises, and NoRoom.
        """
        source = self._find(seq)
        with self._turn():
            return self._add(sampling or source.sampling, seed, source)

    def truncate(self, seq: int, length: int) -> None:
        """Keep the first ``length`` tokens. Raises InvalidRequest where there are fewer.

        The dropped tokens stay in the cache until their room is needed. A recurrent or hybrid memory
        continues from whole states only: the tokens after the last kept state are evaluated again by the next
        :meth:`eval`.
        """
        sequence = self._find(seq)
        if not 0 <= length <= len(sequence.ids):
            raise InvalidRequest("length", f"{length} is not in 0 … {len(sequence.ids)}")
        with self._turn():
            if length < len(sequence.ids):
                self._release(sequence)
                sequence.ids, sequence.logits = sequence.ids[:length], None
            sequence.accepted = []
            sequence.update_history()

    def delete_seq(self, seq: int) -> None:
        """Forget a sequence. Its tokens stay in the cache until their room is needed."""
        sequence = self._find(seq)
        with self._turn():
            self._release(sequence)
            del self._sequences[seq]

    # ---- evaluating and sampling

    def eval(self, seq: int, tokens: Iterable[SupportsIndex]) -> Logits:
        """Add ``tokens`` and return the logits after them; see :meth:`eval_many`."""
        return self.eval_many({seq: tokens})[seq]

    def eval_many(self, tokens: Mapping[int, Iterable[SupportsIndex]]) -> dict[int, Logits]:
        """Add tokens to several sequences at once: in one ``llama_decode`` as far as they fit one.

        Returns the logits after the last token of each; they are the caller's to read, not to change. What
        the cache holds is not evaluated, nor the same twice. Raises InvalidRequest for an id outside the
        vocabulary or an empty sequence that gets no token, ContextOverflow for a sequence that gets longer
        than the window (nothing has been evaluated then), and NoRoom when there are not enough cells: each
        sequence then has the tokens that were evaluated so far.
        """
        added: dict[int, tuple[_Sequence, list[int]]] = {}
        for seq, given in tokens.items():
            sequence = self._find(seq)
            new = self._checked(given, len(sequence.ids))
            if not sequence.ids and not new:
                raise InvalidRequest("tokens", f"sequence {seq} is empty: give it a token first")
            added[seq] = sequence, new
        with self._turn():
            for sequence, new in added.values():
                sequence.ids += new
                sequence.logits = None if new else sequence.logits
            try:
                self._evaluate([sequence for sequence, _ in added.values() if sequence.logits is None])
            finally:
                for sequence, new in added.values():
                    if sequence.logits is None:  # the tokens that were not evaluated are not added
                        kept = max(len(sequence.ids) - len(new), self._evaluated(sequence))
                        sequence.ids = sequence.ids[:kept]
                    if new:
                        accepted, sequence.accepted = sequence.accepted, []
                        if sequence.logits is None or accepted != new:
                            sequence.update_history()
            return {seq: s.logits for seq, (s, _) in added.items() if s.logits is not None}

    def logits(self, seq: int) -> Logits:
        """Return the logits after the last token, which is evaluated again if they are not known any more."""
        return self.eval(seq, ())

    def sample(self, seq: int, logits: Logits | None = None) -> int:
        """Draw a token that could come next, from the model's logits or from ``logits``.

        The sequence stays as it is until :meth:`accept` or :meth:`eval`; a second call draws another token.
        Raises NotANumber where the model's logits are none.
        """
        row = np.asarray(self.logits(seq) if logits is None else logits, np.float32)
        if row.shape != (self.model.n_vocab,):
            raise InvalidRequest("logits", f"{self.model.n_vocab} numbers in a row are expected")
        if np.isnan(row).any() or not row.max() < np.inf:
            raise NotANumber
        if row.max() == -np.inf:
            raise InvalidRequest("logits", "no token is left to choose from")
        sequence = self._find(seq)
        with self._turn():
            return sequence.chain.pick(row)

    def accept(self, seq: int, token: int) -> None:
        """Tell the sampler that ``token`` comes next; :meth:`eval` adds it to the sequence."""
        sequence = self._find(seq)
        (token,) = self._checked((token,), len(sequence.ids) + len(sequence.accepted))
        with self._turn():
            sequence.chain.accept(token)
            sequence.accepted.append(token)

    # ---- checks

    def _find(self, seq: object) -> _Sequence:
        sequence = self._sequences.get(seq) if isinstance(seq, int) else None
        if sequence is None:
            with self._turn():  # a closed engine says that it is closed
                raise InvalidRequest("seq", f"there is no sequence {seq!r}")
        return sequence

    def _checked(self, tokens: Iterable[SupportsIndex], before: int) -> list[int]:
        """Return the ids of tokens that come after ``before`` others."""
        ids = [operator.index(token) for token in tokens]
        check_ids("tokens", ids, self.model.n_vocab)
        if before + len(ids) > self.window:
            raise ContextOverflow(before + len(ids), self.window)
        return ids

    # ---- cells and samplers, between two steps

    def _forget_cells(self) -> None:
        """Forget the cells of all sequences after the cache was cleared; their tokens are evaluated again."""
        for sequence in self._sequences.values():
            sequence.seq = -1

    def _add(self, sampling: Sampling, seed: int | None, source: _Sequence | None = None) -> int:
        """Make a sequence, with the tokens and on the cells of ``source``, and return its number."""
        check_sampling(sampling, self.model)
        if notation(sampling):
            raise NotSupported("a grammar belongs to requests; here, change the logits that sample() gets")
        if len(self._sequences) >= self.context.sequences:
            raise NoRoom(f"{self.context.sequences} sequences are all that the context takes: delete one")
        if seed is not None:
            sampling = replace(sampling, seed=operator.index(seed))
            check_sampling(sampling, self.model)
        number, seed, sampling = next(self._numbers), sampling.seed, replace(sampling, seed=None)
        chosen = derive_seed(self._seed, number) if seed is None else seed
        made = _Sequence(sampling, self._template(sampling).new(chosen))
        if source is not None:
            made.ids, made.accepted, made.logits = [*source.ids], [*source.accepted], source.logits
            made.update_history()
            if source.seq >= 0:
                self._lease(made, self._evaluated(source))
        self._sequences[number] = made
        return number

    def _evaluated(self, sequence: _Sequence) -> int:
        return 0 if sequence.seq < 0 else self.cache.tree.tip[sequence.seq].end

    def _lease(self, sequence: _Sequence, most: int) -> None:
        """Put a sequence on the cells that hold its ids, ``most`` of them at the farthest. Raises NoRoom."""
        if sequence.seq < 0 or self._evaluated(sequence) < most:
            self.cache.release(sequence)
            if not self.cache.allocate(sequence, sequence.ids, most):
                raise NoRoom("no sequence is free: delete one, or end a request")

    def _release(self, sequence: _Sequence) -> None:
        """Release the cells of a sequence, with the logits that follow."""
        if sequence.logits is not None and self._evaluated(sequence) == len(sequence.ids):
            self.cache.store_logits(sequence.seq, sequence.logits)
        self.cache.release(sequence)

    def _evaluate(self, sequences: Sequence[_Sequence]) -> None:
        """Evaluate all ids of ``sequences`` and set their logits. Raises NoRoom."""
        tree = self.cache.tree
        for sequence in sequences:
            row = tree.logits_after(sequence.ids, "")
            most = len(sequence.ids) - (row is None)
            if self._evaluated(sequence) > most and not self.cache.rewind(sequence.seq, most):
                self.cache.release(sequence)
            self._lease(sequence, most if sequence.seq < 0 or row is not None else 0)
            if row is not None and self._evaluated(sequence) == len(sequence.ids):
                sequence.logits = _read_only(row)
        while waiting := [sequence for sequence in sequences if sequence.logits is None]:
            for sequence in waiting:
                self._lease(sequence, 0)
            portions = self.scheduler.read_for_caller(waiting)
            if not portions:
                raise NoRoom(f"all {self.context.cells} cells are in use: truncate or delete a sequence")
            rows = {tuple(portion.demand.path): portion.row for portion in portions if portion.answers}
            for sequence in waiting:
                if (answer := rows.get(tuple(sequence.ids))) is not None:
                    sequence.logits = _read_only(self.context.logits(answer))
                    self._lease(sequence, len(sequence.ids))  # another may have evaluated them


def _read_only(row: Logits) -> Logits:
    row = row.copy()
    row.flags.writeable = False
    return row
