"""From a row of logits to a published token: sampling, stop rules, the end of a branch.

The scheduler calls it on the engine thread, once for each branch and step. It knows branches and rows, and
nothing of admission.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from .active import ActiveBranch, ActiveRequest, ChainState, Logits, constraint_key
from .cache import Cache
from .constraints import Constraint, PrefixConstraint, compile_constraint
from .logprobs import score
from .model import Model
from .native.context import Context
from .native.library import library
from .parameters import notation
from .processors import processors_for
from .sampling import Resting
from .sampling_pool import SamplingPool
from .seeds import derive_seed
from .tree import SHARED, Demand
from .types import (
    BranchState,
    Cut,
    EngineError,
    Event,
    Failed,
    FinishReason,
    InvalidRequest,
    NotANumber,
    PhraseBanned,
    Priority,
    TokenLogprob,
    describe_error,
)
from .watchers import Rewind, rewinder_settings, rewinders_for

log = logging.getLogger(__name__)

Row: TypeAlias = "int | Logits | None"
"""The logits that a token was chosen from: a row of the last decode, a copy, or None if they are gone."""

Sampled: TypeAlias = "tuple[int, TokenLogprob | None]"
"""A token that a chain has accepted, with its log-probability if the request has them."""


_INFINITY = float("inf")
_CHECKED_EVERY = 16  # tokens, of which one has its whole row looked through for NaN
_DEAR = 4  # times as long as plain sampling take penalties; DRY and log-probabilities 2 to 3 times
_PLACES = 1 << 32  # seeds for positions in a text begin after those of samplers and attempts


class SamplingLoop:
    """Samples and publishes for all branches of one context."""

    def __init__(
        self,
        model: Model,
        context: Context,
        cache: Cache,
        *,
        pool: SamplingPool,
        window: int,
        most: int,
    ) -> None:
        self.model, self.context, self.cache = model, context, cache
        self.pool = pool
        self.window = window
        self.pending: deque[ActiveBranch] = deque()  # ended, and their last tokens not evaluated yet
        self._most_pending = most
        self.now = 0.0  # time.monotonic() of this step
        self.generated = 0
        self.resting = Resting()
        lib = library()
        self._sample, self._sample_unlocked = lib.llama_sampler_sample, lib.llama_sampler_sample_unlocked
        self._logits = lib.llama_get_logits_ith
        self._all_logits = lib.llama_get_logits
        self._eog = model.eog
        self.interruption: BaseException | None = None  # raised by code of a caller that steps the engine

    # ---- starting

    def prepare(self, active: ActiveBranch) -> bool:
        """Build the chain and the grammar of a branch; False when its settings or its text end it instead."""
        try:
            self._make_ready(active)
        except Exception as error:  # any error ends this branch only
            self.break_off(active, in_words(error))
            return False
        return True

    def _make_ready(self, active: ActiveBranch) -> None:
        """Make chain and grammar follow the text of a branch as it is.

        Raises InvalidRequest for settings that cannot be built, and for text that breaks the constraint.
        """
        request, ids = active.request, active.buffer.ids
        chain = active.chain if active.chain is not None and active.chain.pointer else None
        if chain is None or active.chain_state is ChainState.OUTDATED:
            # each position has a seed of its own, or the same random numbers would be drawn again
            seed = derive_seed(active.branch.seed, _PLACES + len(ids)) if ids else active.branch.seed
            active.chain = chain = request.template_for(active, self.model, self.context.cells).new(
                seed, ids, chain
            )
        elif active.chain_state is ChainState.STALE:
            chain.remember([*request.history_ids, *ids])
        chain.rests = 0
        active.chain_state = ChainState.CURRENT
        if not ids and request.pending_prefix and active.base is request.ids and active.heal is None:
            active.heal = PrefixConstraint(self.model.piece_index, request.pending_prefix)
            active.spell_prompt_again()
        if not active.constrained:
            self._constrain(active)
        settings = rewinder_settings(active.sampling)
        if active.rewinder_settings != settings:
            active.rewinder_settings = settings
            model, prompt, pending = self.model, request.ids, request.pending_text

            def prompt_end(chars: int) -> str:
                """Return the last characters before the branch, at least ``chars`` of them."""
                return model.detokenize(prompt[-chars:]) + pending

            active.watch(rewinders_for(active.sampling, prompt_end))
        active.processors = processors_for(active)
        self._refresh(active)

    def _refresh(self, active: ActiveBranch) -> None:
        """Decide whether llama.cpp can sample this branch in a single call, and whether that is all."""
        if active.processors:
            active.processors = [each for each in active.processors if not each.done(active)]
        active.alone = (
            not active.processors
            and active.shared_draw is None
            and active.heal is None
            and active.constraint is None
        )
        active.fast = active.alone and active.request.asked.logprobs is None

    def _constrain(self, active: ActiveBranch) -> None:
        compiled_constraints, key = active.request.constraints, constraint_key(active.sampling)
        if key not in compiled_constraints:
            compiled_constraints[key] = compile_constraint(active.sampling, self.model)
        compiled = compiled_constraints[key]
        constraint = None if compiled is None else compiled.fork()
        if constraint is not None:
            for token in self._seen(active):
                if not constraint.allows(token):
                    problem = constraint.trouble() if constraint.exhausted else "the text does not follow it"
                    raise InvalidRequest(notation(active.sampling) or "grammar", problem)
                constraint.accept(token)
        active.constraint, active.constrained = constraint, True

    def _seen(self, active: ActiveBranch) -> Sequence[int]:
        """Return the tokens of a branch that its grammar sees: not what completes the prompt."""
        buffer = active.buffer
        if not active.branch.overlap:
            return buffer.ids
        first = next((k for k, end in enumerate(buffer.ends) if end > 0), None)
        if first is None:
            return ()
        new = active.branch.text[: buffer.ends[first]]
        return [*self.model.tokenize_continuation(new), *buffer.ids[first + 1 :]]

    # ---- one token

    def next_tokens(self, branches: Sequence[ActiveBranch]) -> None:
        """Sample and publish a token for each branch; the k-th has row k of the decode that just ended.

        Only for decodes of which every row has logits.
        """
        drawn = self.draw_together(list(enumerate(branches)))
        sample, pointer, n_vocab = self._sample, self.context.pointer, self.context.n_vocab
        logits = self._all_logits(pointer)
        for row, active in enumerate(branches):
            if active.seq < 0:
                continue  # a callback's error has ended its whole request
            if drawn or not active.fast or active.chain is None:
                self.next_token(active, row, drawn.get(active))
                continue
            token = sample(active.chain.pointer, pointer, row)
            number = logits[row * n_vocab + token] < _INFINITY
            if not number or (_checks_row(active) and np.isnan(self.context.logits(row)).any()):
                self.break_off(active, NotANumber())
            else:
                self.publish(active, token, row, None)

    def next_token(self, active: ActiveBranch, row: int, drawn: Sampled | None = None) -> None:
        """Publish what was ``drawn`` from a row of the decode that just ended; sample it if nothing was."""
        if drawn is not None:
            token, logprob = drawn
            if token < 0:
                self.break_off(active, NotANumber())
            else:
                self.publish(active, token, row, logprob)
            return
        if not active.fast or active.chain is None:
            self.sample_from(active, self.context.logits(row), row)
            return
        token = self._sample(active.chain.pointer, self.context.pointer, row)
        number = self._logits(self.context.pointer, row)[token] < _INFINITY
        if not number or (_checks_row(active) and np.isnan(self.context.logits(row)).any()):
            self.break_off(active, NotANumber())
        else:
            self.publish(active, token, row, None)

    def draw_together(self, rows: Sequence[tuple[int, ActiveBranch]]) -> Mapping[Demand, Sampled]:
        """Draw from these rows of the decode that just ended side by side, where that saves time.

        Only for branches whose own chains choose in a single call, and depend on nothing that the others
        draw. All that is drawn has to be published: the chains have accepted it.
        """
        n_vocab = self.context.n_vocab
        if not self.pool.is_faster(len(rows), len(rows) * n_vocab * _DEAR):
            return {}
        alone = [(row, active) for row, active in rows if active.alone and active.chain is not None]
        candidates = n_vocab * sum(_DEAR if _is_dear(active) else 1 for _, active in alone)
        if not self.pool.is_faster(len(alone), candidates):
            return {}
        self._all_logits(self.context.pointer)  # puts the rows in order; after that they are only read
        drawn = self.pool.draw(self._draw_row, alone)
        return {active: result for (_, active), result in zip(alone, drawn, strict=True)}

    def _draw_row(self, place: tuple[int, ActiveBranch]) -> Sampled:
        """Sample from a row in a single call; the token is -1 if the row has NaN. For any thread."""
        row, active = place
        assert active.chain is not None
        token = self._sample_unlocked(active.chain.pointer, self.context.pointer, row)
        logits = self.context.logits(row)
        if not logits[token] < _INFINITY or (_checks_row(active) and np.isnan(logits).any()):
            return -1, None
        wanted = active.request.asked.logprobs
        return token, None if wanted is None else score(logits, token, wanted)

    def sample_from(self, active: ActiveBranch, logits: Logits, row: Row) -> None:
        """Sample from ``logits`` and publish; stored logits have no row."""
        try:
            token = self._choose(active, logits)
        except NotANumber as error:
            self.break_off(active, error)
            return
        except BaseException as error:  # a callback is the caller's code, and must not end this thread
            if not isinstance(error, Exception):
                self.interruption = error
            self._fail(active, error)
            return
        if token is None:
            if not self._leave_dead_end(active):
                constraint = active.heal or active.constraint
                self._end_of_grammar(active, "" if constraint is None else constraint.trouble(), row)
            return
        self._write(active, token, logits, row)
        if not active.branch.live or (not active.constrained and not self.prepare(active)):
            return
        if active.constraint is not None and active.constraint.finished:
            self.finish(active, FinishReason.STOP, None)

    def _write(self, active: ActiveBranch, token: int, logits: Logits, row: Row) -> None:
        wanted = active.request.asked.logprobs
        logprob = None if wanted is None else score(logits, token, wanted)
        self.publish(active, token, logits if row is None else row, logprob)

    def _end_of_grammar(self, active: ActiveBranch, problem: str, row: Row) -> None:
        """End a branch whose text is complete under its grammar, or cannot be completed."""
        if problem:
            self.break_off(active, InvalidRequest(notation(active.sampling) or "grammar", problem))
        else:
            self.finish(active, FinishReason.STOP, row)

    def _choose(self, active: ActiveBranch, logits: Logits) -> int | None:
        """Return a token that chain and grammar have accepted; None when none is allowed.

        Raises NotANumber when the model's row has NaN; a callback may spoil its own copy.
        """
        chain, constraint = active.chain, active.heal or active.constraint
        assert chain is not None
        edited = logits.copy() if active.processors else logits
        for processor in active.processors:
            processor.apply(edited, active)
        token = self._draw(active, edited, constraint)
        if not logits[token] < np.inf or (_checks_row(active) and np.isnan(logits).any()):
            raise NotANumber
        if constraint is not None and not constraint.allows(token):
            if edited is logits:
                edited = logits.copy()
            if not constraint.mask(edited):
                return None
            token = chain.pick(edited)
        chain.accept(token)
        if constraint is not None and token not in self._eog:
            constraint.accept(token)
            if active.heal is not None and active.heal.finished:
                active.heal = None
                active.forget_constraint()  # it has not seen what this token adds to the prompt
        return token

    def _draw(self, active: ActiveBranch, logits: Logits, constraint: Constraint | None) -> int:
        """Draw a token with the branch's own chain, or together with its siblings. Raises NotANumber."""
        chain, shared = active.chain, active.shared_draw
        assert chain is not None
        if shared is None:
            return chain.pick(logits)
        if shared.parted():
            active.shared_draw = None
            self._refresh(active)
        else:
            token = shared.draw(logits, constraint)
            if token is not None:
                return token
        return chain.pick(logits)

    def publish(self, active: ActiveBranch, token: int, row: Row, logprob: TokenLogprob | None) -> None:
        """Add a sampled token to its branch and apply the stop rules."""
        self.generated += 1
        branch = active.branch
        branch.changed_at = self.now
        if not branch.buffer.ids and not branch.bans:
            active.start_clock(self.now)
        if token in self._eog and not active.ignore_eog:
            self.finish(active, FinishReason.EOG, row)
            return
        if token in active.stop_ids:
            self.finish(active, FinishReason.STOP, row)
            return
        verdict = active.add_token(token, logprob, self.now)
        if active.text.weighed:
            chosen_from = self.context.logits(row) if isinstance(row, int) else np.asarray(row)
            active.text.checkpoints[-1].logits = chosen_from.copy()
        if isinstance(verdict, Rewind):
            if self._go_back(active, verdict):
                return
            verdict = active.commit(self.now)
        if verdict is not None:
            self.finish(active, verdict.reason, row, verdict.stop_text, flush=False)
        elif not active.fast:
            self._refresh(active)

    # ---- going back

    def _go_back(self, active: ActiveBranch, found: Rewind) -> bool:
        """Rewind to before what a watcher found in the last token; False where it may stay."""
        policy = active.rewinds
        assert policy is not None
        start = found.start - active.hidden
        policy.count_hit(start)
        place = self._place(active, active.tokens_within(max(start, 0)), found.nearest)
        if place is None:
            active.request.events.append(PhraseBanned(active.branch.index, found.phrase, 0))
            return False
        tokens = self._choose_anew(active, place)
        active.request.events.append(PhraseBanned(active.branch.index, found.phrase, tokens))
        return True

    def _leave_dead_end(self, active: ActiveBranch) -> bool:
        """Rewind a branch whose grammar allows only barred tokens; False where that is not the reason."""
        policy, ids = active.rewinds, active.buffer.ids
        if policy is None or len(ids) not in active.barred:
            return False
        policy.count_hit(len(active.branch.text))
        place = self._place(active, len(ids) - 1)
        if place is None:
            policy.give_up()
            active.barred.clear()
            self._stand_at(active, len(ids))
        else:
            self._choose_anew(active, place)
        return True

    def _place(self, active: ActiveBranch, first: int, nearest: bool = True) -> int | None:
        """Return the position to rewind to, where what was found begins in the token ``first``."""
        assert active.rewinds is not None
        kept = takewhile(lambda row: row is not None, (p.logits for p in reversed(active.text.checkpoints)))
        rows = list(kept)[::-1]
        return active.rewinds.choose_position(
            active.buffer.ids, rows, active.barred, first, active.first_free, nearest
        )

    def _choose_anew(self, active: ActiveBranch, place: int) -> int:
        """Bar the token at ``place`` and choose there again; return how many tokens were removed."""
        ids, points = active.buffer.ids, active.text.checkpoints
        if len(ids) - place > len(points):  # a character is not to be cut in two
            while place > active.first_free and self.model.pieces.text[ids[place - 1]] is None:
                place -= 1
        back = len(ids) - place
        row = points[-back].logits if back <= len(points) else None
        active.barred = {k: tokens for k, tokens in active.barred.items() if k <= place}
        active.barred.setdefault(place, set()).add(ids[place])
        active.branch.bans += 1
        self._stand_at(active, place, row)
        return back

    def _stand_at(self, active: ActiveBranch, place: int, row: Logits | None = None) -> None:
        """Let a branch choose again after ``place`` tokens, from ``row`` if that is kept."""
        if active.rewind(place):
            text = active.branch.text
            active.request.events.append(Cut(active.branch.index, len(text), len(active.buffer.ids)))
        seq = active.seq
        rewound = seq >= 0 and row is not None and self.cache.rewind(seq, active.length)
        if rewound and self.cache.tree.tip[seq].end == active.length:
            self.cache.tree.store_logits(seq, row)
        self.detach(active)

    # ---- the end

    def finish(
        self,
        active: ActiveBranch,
        reason: FinishReason,
        row: Row,
        stop_text: str | None = None,
        flush: bool = True,
    ) -> None:
        """End a branch; its sequence becomes idle, with its logits if it ends exactly there."""
        if flush:
            active.flush()
        kept = reason is not FinishReason.KILLED
        if kept and active.seq >= 0 and active.request.asked.priority is not Priority.BACKGROUND:
            self.expect_more(active)
        held = active.seq >= 0
        self.detach(active, row, kept)
        if not kept and not held:  # it was paused, or waits: what it wrote may be anywhere
            self._give_back(active)
        self._rest(active, kept)
        active.end(BranchState.DONE, reason, stop_text)

    def expect_more(self, active: ActiveBranch) -> None:
        """Have the last token of an ended branch evaluated while nothing else runs.

        A sampled token is evaluated only when its branch continues, so continuing would begin with a decode.
        """
        if self.cache.can_rewind and active.namespace.root == SHARED.root and active not in self.pending:
            self.pending.append(active)
            if len(self.pending) > self._most_pending:
                self.pending.popleft()

    def _rest(self, active: ActiveBranch, kept: bool) -> None:
        """Keep the chain of an ended branch, so that it draws what it would have drawn if it is continued."""
        if kept and active.chain is not None and active.chain.pointer:
            self.resting.add(active.chain)
            active.forget_constraint()
        else:
            active.restart_sampling()

    def discard(self, active: ActiveBranch) -> None:
        """Drop what the cache holds of a discarded branch alone; its text stays."""
        self._give_back(active)
        active.restart_sampling()

    def _give_back(self, active: ActiveBranch) -> None:
        """Drop what the cache holds of a branch alone."""
        if active in self.pending:
            self.pending.remove(active)
        self.cache.forget_tail(active.path, len(active.base), active.namespace)

    def detach(self, active: ActiveBranch, row: Row = None, keep: bool = True) -> None:
        """Take the branch off its sequence, which stays in the cache as long as room allows."""
        seq, active.seq = active.seq, -1
        active.prompting = False
        if seq < 0:
            return
        length = active.length if keep else len(active.base)
        evaluated = self.cache.tree.tip[seq].end
        if length < evaluated:
            if not self.cache.rewind(seq, length) and not keep:
                self.cache.drop_sequence(seq)
                return
        elif length == evaluated and row is not None:
            self.cache.store_logits(seq, self.context.logits(row) if isinstance(row, int) else row)
        self.cache.make_idle(seq, used=active.urgency is not Priority.BACKGROUND)

    def break_off(self, active: ActiveBranch, error: EngineError) -> None:
        """End one branch because of ``error``, and the request if it was the last that had not failed."""
        branch = active.branch
        log.warning("request %d, branch %d: %s", active.request.generation.number, branch.index, error)
        active.flush()
        self.detach(active)
        active.restart_sampling()
        branch.error = error
        active.end(BranchState.FAILED, FinishReason.ERROR)
        if all(r.branch.state is BranchState.FAILED for r in active.request.branches):
            self.fail_request(active.request, error)

    def _fail(self, active: ActiveBranch, error: BaseException) -> None:
        log.warning("request %d: %s", active.request.generation.number, error, exc_info=error)
        if not isinstance(error, EngineError):
            error = InvalidRequest("logits_callback", f"it raised {describe_error(error)}")
        self.fail_request(active.request, error)

    def fail_request(self, request: ActiveRequest, error: EngineError) -> None:
        """End every branch of a request because of ``error``."""
        request.failed = True
        for active in request.branches:
            if active.branch.live:
                active.flush()
                self.detach(active)
                active.restart_sampling()
                active.branch.state = BranchState.FAILED
                active.branch.finish_reason, active.branch.error = FinishReason.ERROR, error
        failed: Event = Failed(error)
        request.events.append(failed)


def in_words(error: Exception) -> EngineError:
    """Return ``error`` as an EngineError; log an internal error with its traceback."""
    if isinstance(error, EngineError):
        return error
    log.error("internal error", exc_info=error)
    return EngineError(f"internal error: {type(error).__name__}: {error}")


def _checks_row(active: ActiveBranch) -> bool:
    """Whether the whole row is checked at this token."""
    return not len(active.branch.buffer.ids) % _CHECKED_EVERY


def _is_dear(active: ActiveBranch) -> bool:
    """Whether a token of this branch takes several times as long to draw as most."""
    return active.request.asked.logprobs is not None or (active.chain is not None and active.chain.length > 0)
