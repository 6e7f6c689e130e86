"""The low-level face: sequences, evaluated, sampled and forked one call at a time, for who owns the loop.

On the same context and cache as requests, and between their steps: what some sequence or branch has evaluated
is not evaluated again. Every call is checked, in whatever order calls come; none can end the process.
"""

from __future__ import annotations

import itertools
import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from .cache import Cache
from .decode import Plan
from .model import Model
from .native.context import ABORTED, OK, Context
from .parameters import notation
from .sampling import Chain, SamplerTemplate, derive_seed
from .scheduler import Scheduler
from .tree import SHARED, Demand
from .types import (
    ContextOverflow,
    EngineClosed,
    InvalidRequest,
    NativeError,
    NoRoom,
    NotANumber,
    NotSupported,
    Priority,
    Sampling,
)
from .validate import check_sampling

_TEMPLATES = 32  # settings whose chains are made from what was prepared once

_NO_SEQUENCE = "no sequence is free: delete one, or end a request"

Logits = NDArray[np.float32]


class _Sequence(Demand):
    """``ids`` are its tokens; the first of them, up to its tip in the tree, are evaluated.

    It wants something only within a call.
    """

    __slots__ = ("accepted", "chain", "ids", "logits", "sampling", "seed")

    def __init__(self, sampling: Sampling, seed: int) -> None:
        super().__init__(Priority.NORMAL, SHARED)
        self.ids: list[int] = []
        self.accepted: list[int] = []  # by the samplers, and not evaluated yet
        self.logits: Logits | None = None  # after the last of ids
        self.sampling, self.seed = sampling, seed
        self.chain: Chain | None = None


class Sequences:
    """Sequences of one engine that has no thread of its own. Reached as :attr:`Engine.sequences`.

    A sequence is a number, which is never given twice. It holds its cells until it is truncated or deleted;
    where that leaves no room for others, calls raise NoRoom. All methods raise InvalidRequest for a
    number that is none, EngineClosed, and EngineError within a callback of the engine.

    Args:
        turn: the right to use the context.
    """

    def __init__(
        self, model: Model, context: Context, cache: Cache, scheduler: Scheduler, window: int,
        turn: Callable[[], AbstractContextManager[None]], seed: int,
    ) -> None:  # fmt: skip
        self.model, self.context, self.cache, self.scheduler = model, context, cache, scheduler
        self.window, self._turn, self._seed = window, turn, seed
        self._sequences: dict[int, _Sequence] = {}
        self._numbers = itertools.count()
        self._templates: dict[Sampling, SamplerTemplate] = {}
        self._clears = cache.clears

    # ---- what there is

    def __len__(self) -> int:
        return len(self._sequences)

    def tokens(self, seq: int) -> tuple[int, ...]:
        """The tokens of a sequence."""
        return tuple(self._known(seq).ids)

    # ---- making and ending

    def new_seq(self, sampling: Sampling | None = None, seed: int | None = None) -> int:
        """An empty sequence. ``seed`` is where its chance begins; None takes the sampling's, or draws one.

        Raises InvalidRequest for settings that mean nothing, NotSupported for a grammar, NoRoom where there
        are as many sequences as the context takes.
        """
        chosen = self._checked(sampling or Sampling())
        with self._turn():
            return self._add(chosen, seed)

    def fork(self, seq: int, sampling: Sampling | None = None, seed: int | None = None) -> int:
        """A sequence with the same tokens, on the same cells; nothing is evaluated or copied.

        Its samplers look back at the same tokens, with a chance of their own. Raises what :meth:`new_seq`
        raises, and NoRoom.
        """
        source = self._known(seq)
        chosen = self._checked(sampling or source.sampling)
        with self._turn():
            self._find_again()
            number = self._add(chosen, seed)
            made = self._sequences[number]
            made.ids, made.accepted, made.logits = list(source.ids), list(source.accepted), source.logits
            evaluated = self._evaluated(source)
            if evaluated:
                self.cache.tree.want_at(made, self.cache.tree.tip[source.seq])
                leased = self.cache.lease(made, evaluated)
                self.cache.tree.unwant(made)
                if not leased:
                    del self._sequences[number]
                    raise NoRoom(_NO_SEQUENCE)
            return number

    def truncate(self, seq: int, length: int) -> None:
        """Keep the first ``length`` tokens. Raises InvalidRequest where it has not so many.

        What is cut off stays in the cache until its room is needed. A recurrent or hybrid memory goes on from
        whole states only: what comes after the last one it kept is evaluated again by the next :meth:`eval`.
        """
        sequence = self._known(seq)
        length = _whole("length", length)
        if not 0 <= length <= len(sequence.ids):
            raise InvalidRequest("length", f"{length} is not in 0 … {len(sequence.ids)}")
        with self._turn():
            self._find_again()
            if length < len(sequence.ids):
                self._let_go(sequence)
                sequence.ids, sequence.logits = sequence.ids[:length], None
            sequence.accepted = []
            if sequence.chain is not None:
                sequence.chain.remember(sequence.ids)

    def delete_seq(self, seq: int) -> None:
        """Forget a sequence. Its tokens stay in the cache until their room is needed."""
        sequence = self._known(seq)
        with self._turn():
            self._find_again()
            self._let_go(sequence)
            if sequence.chain is not None:
                sequence.chain.close()
            del self._sequences[seq]

    # ---- going on

    def eval(self, seq: int, tokens: Iterable[SupportsIndex]) -> Logits:
        """Add ``tokens`` and return what the model says after them; see :meth:`eval_many`."""
        return self.eval_many({seq: tokens})[seq]

    def eval_many(self, tokens: Mapping[int, Iterable[SupportsIndex]]) -> dict[int, Logits]:
        """Add tokens to several sequences at once: in one ``llama_decode`` as far as they fit one.

        Returns the logits after the last token of each; they are the caller's to read, not to change. What
        the cache holds is not evaluated, nor the same twice. Raises InvalidRequest for an id outside the
        vocabulary or an empty sequence that gets no token, ContextOverflow for a sequence that gets longer
        than the window (nothing has been evaluated then), and NoRoom when there are not enough cells: each
        sequence then has the tokens that were evaluated so far.
        """
        wanted: list[tuple[int, _Sequence, list[int]]] = []
        for seq, given in tokens.items():
            sequence = self._known(seq)
            new = [_whole("tokens", token) for token in given]
            self._check_ids(new)
            if not sequence.ids and not new:
                raise InvalidRequest("tokens", f"sequence {seq} is empty, and nothing can follow nothing")
            if len(sequence.ids) + len(new) > self.window:
                raise ContextOverflow(len(sequence.ids) + len(new), self.window)
            wanted.append((seq, sequence, new))
        with self._turn():
            self._find_again()
            for _, sequence, new in wanted:
                sequence.ids += new
                sequence.logits = None if new else sequence.logits
            try:
                self._evaluate([sequence for _, sequence, _ in wanted if sequence.logits is None])
            finally:
                for _, sequence, new in wanted:
                    self._settle(sequence, new)
            return {seq: sequence.logits for seq, sequence, _ in wanted if sequence.logits is not None}

    def logits(self, seq: int) -> Logits:
        """What the model says after the last token; evaluates that again if it is not known any more."""
        return self.eval(seq, ())

    def sample(self, seq: int, logits: Logits | None = None) -> int:
        """A token that could come next, drawn from what the model says, or from ``logits``.

        Nothing is remembered of it before :meth:`accept` or :meth:`eval`; a second call draws another. Raises
        NotANumber when the model's answer is none.
        """
        row = np.asarray(self.logits(seq) if logits is None else logits, np.float32)
        if row.shape != (self.context.n_vocab,):
            raise InvalidRequest("logits", f"{self.context.n_vocab} numbers in a row are expected")
        if np.isnan(row).any() or not row.max() < np.inf:
            raise NotANumber
        if row.max() == -np.inf:
            raise InvalidRequest("logits", "no token is left to choose from")
        sequence = self._known(seq)
        with self._turn():
            return self._chain(sequence).pick(row)

    def accept(self, seq: int, token: int) -> None:
        """Let the samplers know that ``token`` comes next; :meth:`eval` adds it to the sequence."""
        sequence = self._known(seq)
        token = _whole("token", token)
        self._check_ids((token,))
        if len(sequence.ids) + len(sequence.accepted) >= self.window:
            raise ContextOverflow(len(sequence.ids) + len(sequence.accepted) + 1, self.window)
        with self._turn():
            self._chain(sequence).accept(token)
            sequence.accepted.append(token)

    def close(self) -> None:
        """Give back what is native; only for the engine."""
        for sequence in self._sequences.values():
            if sequence.chain is not None:
                sequence.chain.close()
        for template in self._templates.values():
            template.close()
        self._sequences.clear()
        self._templates.clear()

    # ---- inside

    def _known(self, seq: object) -> _Sequence:
        sequence = self._sequences.get(seq) if isinstance(seq, int) else None
        if sequence is None:
            with self._turn():  # a closed engine has none at all
                raise InvalidRequest("seq", f"there is no sequence {seq!r}")
        return sequence

    def _checked(self, sampling: Sampling) -> Sampling:
        check_sampling(sampling, self.model)
        if notation(sampling):
            raise NotSupported("a grammar belongs to requests; here, change the logits that sample() gets")
        return sampling

    def _check_ids(self, ids: Iterable[int]) -> None:
        for token in ids:
            if not 0 <= token < self.model.n_vocab:
                raise InvalidRequest("tokens", f"token id {token} is not in 0 … {self.model.n_vocab - 1}")

    def _add(self, sampling: Sampling, seed: int | None) -> int:
        if len(self._sequences) >= self.context.sequences:
            raise NoRoom(f"{self.context.sequences} sequences are all that the context takes: delete one")
        asked = sampling.seed if seed is None else _whole("seed", seed)
        if asked is not None and not 0 <= asked < 1 << 64:
            raise InvalidRequest("seed", f"{asked} is not in 0 … 2^64-1")
        number = next(self._numbers)
        self._sequences[number] = _Sequence(
            replace(sampling, seed=None), derive_seed(self._seed, number) if asked is None else asked
        )
        return number

    def _find_again(self) -> None:
        """After everything was forgotten, the sequences are what their tokens are."""
        if self._clears != self.cache.clears:
            self._clears = self.cache.clears
            for sequence in self._sequences.values():
                sequence.seq, sequence.node = -1, None

    def _evaluated(self, sequence: _Sequence) -> int:
        return 0 if sequence.seq < 0 else self.cache.tree.tip[sequence.seq].end

    def _let_go(self, sequence: _Sequence) -> None:
        """Its cells can be had by others; what the model said after them is kept, too."""
        if (
            sequence.seq >= 0
            and sequence.logits is not None
            and self._evaluated(sequence) == len(sequence.ids)
        ):
            self.cache.store_logits(sequence.seq, sequence.logits)
        self.cache.release(sequence)

    def _evaluate(self, sequences: Sequence[_Sequence]) -> None:
        """Bring every one of them to the end of its ids, and its logits with it."""
        try:
            for sequence in sequences:
                self._begin(sequence)
            self._work_off([sequence for sequence in sequences if sequence.logits is None])
            for sequence in sequences:
                self._stand_at(sequence, len(sequence.ids))  # others may have evaluated its end
        finally:
            for sequence in sequences:
                self.cache.tree.unwant(sequence)

    def _begin(self, sequence: _Sequence) -> None:
        """Put it on cells as far as the cache holds its ids."""
        node = self.cache.tree.want(sequence, sequence.ids)
        most = node.end if node.logits is not None else node.end - 1
        if self._evaluated(sequence) > most and not self.cache.rewind(sequence.seq, most):
            self._let_go(sequence)
        if sequence.seq < 0 or node.logits is not None:
            self._stand_at(sequence, most)
        if self._evaluated(sequence) == len(sequence.ids) and node.logits is not None:
            sequence.logits = _kept(node.logits)

    def _stand_at(self, sequence: _Sequence, most: int) -> None:
        """Let it hold what the cells hold of its first ``most`` ids."""
        if sequence.seq < 0 or self._evaluated(sequence) < most:
            self.cache.release(sequence)
            if not self.cache.lease(sequence, most):
                raise NoRoom(_NO_SEQUENCE)

    def _work_off(self, waiting: list[_Sequence]) -> None:
        """Decode what they have to do."""
        chunk = self.context.max_rows
        while waiting:
            plan = self.scheduler.decoder.plan((), waiting, chunk)
            if self.cache.make_room(plan.prompt_rows) and self._decode(plan):
                for demand, _, row, answers in plan.portions:
                    if answers:
                        node, logits = self.cache.tree.tip[demand.seq], _kept(self.context.logits(row))
                        for sequence in waiting:
                            if sequence.node is node:
                                sequence.logits = logits
                waiting = [sequence for sequence in waiting if sequence.logits is None]
            elif plan.prompt_rows == 1:
                raise NoRoom(f"all {self.context.cells} cells are in use: truncate or delete a sequence")
            else:
                chunk = min(chunk, plan.prompt_rows) // 2

    def _decode(self, plan: Plan) -> bool:
        """False where llama.cpp finds no room; nothing has changed then."""
        scheduler, context = self.scheduler, self.context
        scheduler.make_ready(SHARED.root, plan.prompt_rows)
        context.rearm()
        started = time.perf_counter()
        try:
            code = context.decode()
            if code == OK:
                scheduler.decoder.settle(plan)
                scheduler.count(plan, time.perf_counter() - started)
                return True
        except NativeError as error:
            scheduler.fail_all(error)  # nothing is known of the memory any more
            raise
        if code == ABORTED:  # by who closes the engine
            scheduler.decoder.roll_back(plan)
            raise EngineClosed("the engine was closed")
        return False

    def _settle(self, sequence: _Sequence, new: list[int]) -> None:
        """It has those of the ``new`` tokens that were evaluated, and its samplers know of them."""
        if sequence.logits is None:
            del sequence.ids[max(len(sequence.ids) - len(new), self._evaluated(sequence)) :]
        if new:
            accepted, sequence.accepted = sequence.accepted, []
            if sequence.chain is not None and (sequence.logits is None or accepted != new):
                sequence.chain.remember(sequence.ids)

    def _chain(self, sequence: _Sequence) -> Chain:
        if sequence.chain is None:
            template = self._templates.get(sequence.sampling)
            if template is None:
                while len(self._templates) >= _TEMPLATES:
                    self._templates.pop(next(iter(self._templates))).close()
                template = SamplerTemplate(sequence.sampling, self.model, self.context.cells)
                self._templates[sequence.sampling] = template
            sequence.chain = template.new(sequence.seed)
            sequence.chain.remember([*sequence.ids, *sequence.accepted])
        return sequence.chain


def _whole(field: str, value: SupportsIndex) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidRequest(field, f"{value!r} is not a whole number") from None


def _kept(row: Logits) -> Logits:
    row = row.copy()
    row.flags.writeable = False
    return row
