"""From a row of logits to a published token: the draw, what edits it, going back, and the end of a branch.

The scheduler calls it on the engine thread, once for each branch and step. It knows branches and rows, and
nothing of admission.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .active import ActiveRequest, Logits
from .branch import ActiveBranch, Back, ChainState
from .cache import Cache
from .constraints import Constraint, PrefixConstraint
from .logprobs import score
from .model import Model
from .native.context import Context
from .native.library import library
from .parameters import notation
from .sampling_pool import SamplingPool
from .seeds import derive_seed
from .tree import PRIVATE, Demand
from .types import (
    BranchState,
    BranchView,
    EngineError,
    Failed,
    FinishReason,
    InvalidRequest,
    NotANumber,
    PhraseBanned,
    Priority,
    TokenLogprob,
    describe_error,
)

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
        self, model: Model, context: Context, cache: Cache, *, pool: SamplingPool, window: int, most: int
    ) -> None:
        self.model, self.context, self.cache, self.pool, self.window = model, context, cache, pool, window
        self.pending: deque[ActiveBranch] = deque()  # ended, and their last tokens not evaluated yet
        self._most_pending = most
        self.now = 0.0  # time.monotonic() of this step
        self.generated = 0
        lib = library()
        self._sample, self._sample_unlocked = lib.llama_sampler_sample, lib.llama_sampler_sample_unlocked
        self._logits, self._all_logits = lib.llama_get_logits_ith, lib.llama_get_logits
        self._eog = model.eog

    # ---- starting

    def prepare(self, active: ActiveBranch) -> bool:
        """Let chain and grammar follow the text of a branch; False when its settings or text end it."""
        try:
            self._make_ready(active)
        except Exception as error:  # any error ends this branch only
            self.break_off(active, in_words(error))
            return False
        return True

    def _make_ready(self, active: ActiveBranch) -> None:
        """Raise InvalidRequest for settings that cannot be built, and for text that breaks the constraint."""
        request, ids = active.request, active.buffer.ids
        chain = active.chain
        if chain is None or active.chain_state is ChainState.OUTDATED:
            # each position has a seed of its own, or the same random numbers would be drawn again
            seed = derive_seed(active.branch.seed, _PLACES + len(ids)) if ids else active.branch.seed
            active.chain = chain = request.template_for(active, self.context.cells).new(seed, ids)
        elif active.chain_state is ChainState.STALE:
            chain.remember([*request.ids, *ids])
        active.chain_state = ChainState.CURRENT
        if not chain.draws:  # it steers by its own choices
            active.siblings = None
        if not ids and request.pending_prefix and active.heal is None:
            active.spell_prompt_again()
            active.heal = PrefixConstraint(self.model.piece_index, request.pending_prefix)
        if not active.constrained:
            active.constraint, active.constrained = self._constraint(active), True
        model, prompt, pending = self.model, request.ids, request.pending_text
        active.watch(lambda chars: model.detokenize(prompt[-chars:]) + pending)
        self._refresh(active)

    def _refresh(self, active: ActiveBranch) -> None:
        """Decide whether llama.cpp can sample this branch in a single call, and whether that is all."""
        alone = active.siblings is None and active.heal is None and active.constraint is None
        active.alone = alone and not _is_edited(active)
        active.fast = active.alone and active.request.asked.logprobs is None

    def _constraint(self, active: ActiveBranch) -> Constraint | None:
        compiled = active.request.compile_constraint(active.sampling)
        if compiled is None:
            return None
        constraint = compiled.fork()
        for token in self._seen_by_grammar(active):
            if not constraint.allows(token):
                problem = constraint.trouble() if constraint.exhausted else "the text does not follow it"
                raise InvalidRequest(notation(active.sampling) or "grammar", problem)
            constraint.accept(token)
        return constraint

    def _seen_by_grammar(self, active: ActiveBranch) -> Sequence[int]:
        """Return the tokens of a branch without what completes the prompt."""
        buffer = active.buffer
        if not active.branch.overlap:
            return buffer.ids
        first = next((k for k, end in enumerate(buffer.ends) if end > 0), None)
        if first is None:
            return ()
        new = (active.branch.text + active.held)[: buffer.ends[first]]
        return [*self.model.tokenize_continuation(new), *buffer.ids[first + 1 :]]

    # ---- one token

    def next_tokens(self, rows: Sequence[tuple[int, ActiveBranch]]) -> None:
        """Sample and publish a token for each branch from its row of the decode that just ended."""
        drawn = self._draw_together(rows)
        for row, active in rows:
            if active.seq >= 0:  # else a callback's error has ended its whole request
                self.next_token(active, row, drawn.get(active))

    def next_token(self, active: ActiveBranch, row: int, drawn: Sampled | None = None) -> None:
        """Publish what was ``drawn`` from a row of the decode that just ended; sample it if nothing was."""
        if drawn is None:
            if not active.fast or active.chain is None:
                self.sample_from(active, self.context.logits(row), row)
                return
            drawn = self._draw_row((row, active), self._sample)
        token, logprob = drawn
        if token < 0:
            self.break_off(active, NotANumber())
        else:
            self.publish(active, token, row, logprob)

    def _draw_together(self, rows: Sequence[tuple[int, ActiveBranch]]) -> Mapping[Demand, Sampled]:
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
        drawn = self.pool.draw(lambda place: self._draw_row(place, self._sample_unlocked), alone)
        return {active: result for (_, active), result in zip(alone, drawn, strict=True)}

    def _draw_row(self, place: tuple[int, ActiveBranch], sample: Any) -> Sampled:
        """Sample from a row in a single call; the token is -1 if the row has NaN. For any thread."""
        row, active = place
        assert active.chain is not None
        token = sample(active.chain.pointer, self.context.pointer, row)
        if not self._logits(self.context.pointer, row)[token] < _INFINITY:
            return -1, None
        if _checks_row(active) and np.isnan(self.context.logits(row)).any():
            return -1, None
        wanted = active.request.asked.logprobs
        return token, None if wanted is None else score(self.context.logits(row), token, wanted)

    def sample_from(self, active: ActiveBranch, logits: Logits, row: Row) -> None:
        """Sample from ``logits`` and publish; stored logits have no row."""
        try:
            token = self._choose(active, logits)
        except NotANumber as error:
            self.break_off(active, error)
            return
        except Exception as error:  # a callback is the caller's code
            log.warning("request %d: %s", active.request.generation.number, error, exc_info=error)
            if not isinstance(error, EngineError):
                error = InvalidRequest("logits_callback", f"it raised {describe_error(error)}")
            self.fail_request(active.request, error)
            return
        if token is None:
            if not self._leave_dead_end(active):
                constraint = active.heal or active.constraint
                problem = "" if constraint is None else constraint.trouble()
                if problem:
                    self.break_off(active, InvalidRequest(notation(active.sampling) or "grammar", problem))
                else:
                    self.finish(active, FinishReason.STOP, row)
            return
        wanted = active.request.asked.logprobs
        logprob = None if wanted is None else score(logits, token, wanted)
        self.publish(active, token, logits if row is None else row, logprob)
        if not active.branch.live or (not active.constrained and not self.prepare(active)):
            return
        if active.constraint is not None and active.constraint.finished:
            self.finish(active, FinishReason.STOP, None)

    def _choose(self, active: ActiveBranch, logits: Logits) -> int | None:
        """Return a token that chain and grammar have accepted; None when none is allowed.

        Raises NotANumber when the model's row has NaN; a callback may spoil its own copy.
        """
        chain, constraint = active.chain, active.heal or active.constraint
        assert chain is not None
        edited = logits
        if _is_edited(active):
            edited = logits.copy()
            _edit(edited, active)
        token: int | None = None
        if active.siblings is not None and active.siblings.parted(active):
            active.siblings = None
            self._refresh(active)
        elif active.siblings is not None:
            token = active.siblings.draw(active, edited, constraint)
        if token is None:
            token = chain.pick(edited)
        if not logits[token] < np.inf or (_checks_row(active) and np.isnan(logits).any()):
            raise NotANumber
        # A mask of the whole vocabulary is dear, and the chosen token mostly allowed.
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

    def publish(self, active: ActiveBranch, token: int, row: Row, logprob: TokenLogprob | None) -> None:
        """Let a branch receive a sampled token, and do what follows from it."""
        self.generated += 1
        branch = active.branch
        branch.changed_at = self.now
        if not branch.buffer.ids and not branch.bans:
            branch.started_at = self.now
            seconds = branch.stop_rule.max_seconds
            active.deadline = None if seconds is None else self.now + seconds
        verdict = active.receive(
            token, logprob, self.now,
            lambda: self.context.logits(row) if isinstance(row, int) else np.asarray(row),
        )  # fmt: skip
        if isinstance(verdict, Back):
            tokens = self._choose_anew(active, verdict.tokens)
            active.request.events.append(PhraseBanned(branch.index, verdict.phrase, tokens))
            return
        if verdict is not None:
            self.finish(active, verdict.reason, row, verdict.stop_text, flush=False)
        elif not active.fast:
            self._refresh(active)

    # ---- going back

    def _leave_dead_end(self, active: ActiveBranch) -> bool:
        """Rewind a branch whose grammar allows only barred tokens; False where that is not the reason."""
        ids = active.buffer.ids
        if not active.banned or len(ids) not in active.barred:
            return False
        place = active.choose_place(len(active.branch.text), len(ids) - 1)
        if place is None:
            active.give_up()
            self._stand_at(active, len(ids), None)
        else:
            self._choose_anew(active, place)
        return True

    def _choose_anew(self, active: ActiveBranch, place: int) -> int:
        """Bar the token at ``place`` and choose there again; return how many tokens were removed."""
        ids, row = active.buffer.ids, active.rows.get(place)
        removed = len(ids) - place
        active.barred.setdefault(place, set()).add(ids[place])
        active.branch.bans += 1
        self._stand_at(active, place, row)
        return removed

    def _stand_at(self, active: ActiveBranch, place: int, row: Logits | None) -> None:
        """Let a branch choose again after ``place`` tokens, from ``row`` if that is kept."""
        active.back_to(place)
        seq = active.seq
        rewound = seq >= 0 and row is not None and self.cache.rewind(seq, active.length)
        if rewound and self.cache.tree.tip[seq].end == active.length:
            self.cache.tree.store_logits(seq, row)
        self.detach(active)

    # ---- the end

    def finish(
        self, active: ActiveBranch, reason: FinishReason, row: Row, stop_text: str | None = None,
        flush: bool = True,
    ) -> None:  # fmt: skip
        """End a branch; its sequence becomes idle, with its logits if it ends exactly there."""
        if flush:
            active.flush()
        kept = reason is not FinishReason.KILLED
        if kept and active.seq >= 0 and active.request.asked.priority is not Priority.BACKGROUND:
            self.expect_more(active)
        self.detach(active, row, kept)
        if not kept:  # what it wrote may be anywhere
            self.give_back(active)
        if kept:  # if the branch is continued, it draws what it would have drawn
            active.forget_constraint()
        else:
            active.restart_sampling()
        active.end(BranchState.DONE, reason, stop_text)

    def expect_more(self, active: ActiveBranch) -> None:
        """Have the last token of an ended branch evaluated while nothing else runs.

        A sampled token is evaluated only when its branch continues, so continuing would begin with a decode.
        """
        if self.cache.can_rewind and not active.salt.startswith(PRIVATE) and active not in self.pending:
            self.pending.append(active)
            if len(self.pending) > self._most_pending:
                self.pending.popleft()

    def give_back(self, active: ActiveBranch) -> None:
        """Drop what the cache holds of a branch alone."""
        if active in self.pending:
            self.pending.remove(active)
        self.cache.forget_tail(active.path, len(active.base), active.salt)

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
        request.events.append(Failed(error))


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


def _is_edited(active: ActiveBranch) -> bool:
    """Whether the logits of a branch are changed before the draw, now or later in this attempt."""
    count = len(active.buffer.ids)
    barred = active.barred and count <= max(active.barred)
    return active.request.asked.logits_callback is not None or count < active.min_tokens or bool(barred)


def _edit(logits: Logits, active: ActiveBranch) -> None:
    """Change a branch's own copy of its logits: by the caller, before min_tokens, where tokens are barred."""
    request, ids = active.request, active.buffer.ids
    if request.asked.logits_callback is not None:
        view = BranchView(active.branch.index, tuple(request.ids), tuple(ids))
        request.asked.logits_callback(logits, view)
    if len(ids) < active.min_tokens:
        logits[request.model.eog_ids] = -np.inf
    if barred := active.barred.get(len(ids)):
        logits[list(barred)] = -np.inf
