"""From a row of logits to a published token: sampling, stop rules, the end of a branch.

Called by the scheduler on the engine thread, once per branch and step. Knows runners and rows,
nothing of admission and queues.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .cache import Cache
from .chains import Resting
from .constraints import Constraint, apply_bits
from .grammar_process import Answer, GrammarProcess, Question
from .model import Model
from .native.context import Context
from .native.library import library
from .parameters import notation
from .prefix import SHARED
from .preparing import Preparer
from .runner import Logits, Pending, Run, Runner, score, tokens_within
from .tails import Tails
from .types import (
    BranchState,
    BranchView,
    Cut,
    EngineError,
    Event,
    Failed,
    Finished,
    FinishReason,
    InvalidRequest,
    NotANumber,
    Priority,
    StateChanged,
    Text,
    TokenLogprob,
)

log = logging.getLogger(__name__)

Row: TypeAlias = "int | Logits | None"
"""Where the logits are that a token was chosen from: in the last decode, in a copy, or nowhere any more."""


class Writer:
    """Samples and publishes for all branches of one context."""

    def __init__(
        self, model: Model, context: Context, cache: Cache, tails: Tails, grammars: GrammarProcess
    ) -> None:
        self.model, self.context, self.cache, self.tails = model, context, cache, tails
        self.grammars = grammars
        self.now = 0.0  # time.monotonic() of this step
        self.generated = 0
        self.resting = Resting()
        self.preparer = Preparer(model, context)
        self._sample, self._logits = library().llama_sampler_sample, library().llama_get_logits_ith
        self._eog = model.eog
        self._eog_ids = np.fromiter(model.eog, np.int64, len(model.eog))

    # ---- starting

    def prepare(self, runner: Runner) -> bool:
        """Build what the branch samples with; False when its settings or its text end it instead."""
        try:
            self.preparer.prepare(runner)
        except EngineError as error:
            self.break_off(runner, error)
            return False
        return True

    # ---- one token

    def next_token(self, runner: Runner, row: int) -> None:
        """Sample from a row of the decode that just ended, and publish."""
        if runner.fast and runner.chain is not None:
            token = self._sample(runner.chain.pointer, self.context.pointer, row)
            if self._logits(self.context.pointer, row)[token] < np.inf and not self._broken(runner, row):
                self.publish(runner, token, row, None)
            else:
                self.break_off(runner, NotANumber())
        else:
            self.sample_from(runner, self.context.logits(row), row)

    def sample_from(self, runner: Runner, logits: Logits, row: Row) -> None:
        """Sample from logits at hand (stored ones have no row), and publish.

        Where a slow grammar has to be asked, that is put off: the branch is ``pending`` then.
        """
        try:
            token = self._choose(runner, logits)
        except NotANumber as error:
            self.break_off(runner, error)
            return
        except Exception as error:  # a callback is the caller's code
            self._fail(runner, error)
            return
        if token is None:
            if runner.pending is None:
                self._dead_end(runner, row)
            return
        self._write(runner, token, logits, row)
        if not runner.branch.live or (not runner.constrained and not self.prepare(runner)):
            return
        if runner.constraint is not None and runner.constraint.finished:
            self.finish(runner, FinishReason.STOP, None)

    def decide(self, pending: Pending, answer: Answer) -> None:
        """A slow grammar was asked about a token: write that, or another one, or end the branch."""
        runner, token = pending.runner, pending.token
        runner.pending = None
        chain = runner.chain
        assert chain is not None
        if answer.mask is not None:
            edited = pending.edited.copy()
            token = chain.pick(edited) if apply_bits(answer.mask, edited) else -1
        elif not answer.allowed:
            token = -1
        if token < 0:
            self._end_of_grammar(runner, answer.trouble, pending.logits)
            return
        chain.accept(token)
        self._write(runner, token, pending.logits, pending.logits)
        if runner.branch.live and answer.finished:
            self.finish(runner, FinishReason.STOP, None)

    def _write(self, runner: Runner, token: int, logits: Logits, row: Row) -> None:
        wanted = runner.run.request.logprobs
        self.publish(runner, token, row, None if wanted is None else score(logits, token, wanted))

    def _broken(self, runner: Runner, row: int) -> bool:
        """Whether anything in a row is no number; now and then only, as large vocabularies take a while."""
        return _now_and_then(runner) and bool(np.isnan(self.context.logits(row)).any())

    def _dead_end(self, runner: Runner, row: Row) -> None:
        """No token is allowed."""
        constraint = runner.heal or runner.constraint
        self._end_of_grammar(runner, "" if constraint is None else constraint.trouble(), row)

    def _end_of_grammar(self, runner: Runner, problem: str, row: Row) -> None:
        """The text is complete, or can never be."""
        if problem:
            self.break_off(runner, InvalidRequest(notation(runner.sampling) or "grammar", problem))
        else:
            self.finish(runner, FinishReason.STOP, row)

    def _choose(self, runner: Runner, logits: Logits) -> int | None:
        """A token, accepted by the chain and the constraint; None when none is allowed, or not yet.

        Raises NotANumber when the model's row is none to choose by; a callback may spoil its own copy.
        """
        chain, constraint = runner.chain, runner.heal or runner.constraint
        assert chain is not None
        edited = self._edited(runner, logits)
        token, runner.drawn = (chain.pick(edited) if runner.drawn is None else runner.drawn), None
        if not logits[token] < np.inf or (_now_and_then(runner) and np.isnan(logits).any()):
            raise NotANumber
        if constraint is not None and constraint.slow:
            self._ask(runner, constraint, token, logits, edited)
            return None
        if constraint is not None and not constraint.allows(token):
            if edited is logits:
                edited = logits.copy()
            if not constraint.mask(edited):
                return None
            token = chain.pick(edited)
        chain.accept(token)
        if constraint is not None and token not in self._eog:
            constraint.accept(token)
            if runner.heal is not None and runner.heal.finished:
                runner.heal = None
                runner.unconstrain()  # it has not seen what this token adds to the prompt's end
        return token

    def _ask(
        self, runner: Runner, constraint: Constraint, token: int, logits: Logits, edited: Logits
    ) -> None:
        """Put the choice off until the constraint's own process has said whether ``token`` may come."""
        kept = logits.copy()
        runner.todo = ()
        runner.pending = Pending(runner, token, kept, kept if edited is logits else edited)
        ids = tuple(self.preparer.seen(runner))
        self.grammars.ask(Question(constraint.form, id(runner), ids, token), runner.pending)

    def _edited(self, runner: Runner, logits: Logits) -> Logits:
        """The row as the caller's rules want it; the row itself where they want nothing."""
        callback = runner.run.request.logits_callback
        no_end = len(runner.buffer.ids) < runner.min_tokens
        if callback is None and not no_end:
            return logits
        edited = logits.copy()
        if callback is not None:
            callback(edited, BranchView(runner.branch.index, runner.run.ids, runner.buffer.ids))
        if no_end:
            edited[self._eog_ids] = -np.inf
        return edited

    def publish(self, runner: Runner, token: int, row: Row, logprob: TokenLogprob | None) -> None:
        """Add a sampled token to its branch and apply the stop rules."""
        self.generated += 1
        branch = runner.branch
        buffer = branch.buffer
        branch.changed_at = self.now
        if not buffer.ids:
            self._first_token(runner)
        if token in self._eog and not runner.ignore_eog:
            self.finish(runner, FinishReason.EOG, row)
            return
        if token in runner.stop_ids:
            self.finish(runner, FinishReason.STOP, row)
            return
        text, hit = runner.text.feed(token)
        if runner.skip:
            text = self._hide(runner, text)
        buffer.ids.append(token)
        buffer.ends.append(runner.text.decoded - runner.hidden)
        if logprob is not None:
            buffer.logprobs.append(logprob)
        if hit is not None:
            self._stop_at(runner, text, hit.keep - runner.hidden, hit.reason, hit.stop_text, row, logprob)
            return
        if text:
            buffer.pieces.append(text)
        runner.todo = ids = (token,)
        runner.run.events.append(Text(branch.index, text, ids, () if logprob is None else (logprob,)))
        if len(buffer.ids) >= runner.limit or (runner.deadline is not None and self.now > runner.deadline):
            self.finish(runner, FinishReason.LENGTH, row)
        elif not runner.fast and len(buffer.ids) == runner.min_tokens:
            self.preparer.refresh(runner)

    def _first_token(self, runner: Runner) -> None:
        runner.branch.started_at = self.now
        seconds = runner.branch.stop_rule.max_seconds
        runner.deadline = None if seconds is None else self.now + seconds

    def _hide(self, runner: Runner, text: str) -> str:
        hidden = min(runner.skip, len(text))
        runner.skip -= hidden
        return text[hidden:]

    def _stop_at(
        self,
        runner: Runner,
        text: str,
        keep: int,
        reason: FinishReason,
        stop_text: str | None,
        row: Row,
        logprob: TokenLogprob | None,
    ) -> None:
        """A stop rule matched: keep ``keep`` characters and the tokens that lie wholly in them."""
        branch, buffer = runner.branch, runner.buffer
        keep = max(keep, 0)
        if text:
            buffer.pieces.append(text)
        kept = tokens_within(buffer, keep)
        dropped = len(buffer.ids) - kept
        covered = buffer.ends[kept - 1] if kept else 0
        if text or dropped == 0:
            last = (buffer.ids[-1],) if dropped == 0 else ()
            runner.run.events.append(Text(branch.index, text, last, (logprob,) if last and logprob else ()))
        del buffer.ids[kept:], buffer.ends[kept:], buffer.logprobs[kept:]
        if dropped:
            runner.text_changed()
        buffer.tail = branch.text[covered:]
        if dropped > 1:  # ids that were published before the stop string was complete
            runner.run.events.append(Cut(branch.index, len(branch.text), kept))
        self.finish(runner, reason, row, stop_text, flush=False)

    # ---- the end

    def finish(
        self,
        runner: Runner,
        reason: FinishReason,
        row: Row,
        stop_text: str | None = None,
        flush: bool = True,
    ) -> None:
        """End a branch; its sequence is parked, with its logits when it ends exactly there."""
        branch = runner.branch
        if flush:
            self.flush(runner)
        kept = reason is not FinishReason.KILLED
        awaited = runner.run.request.priority is Priority.FOREGROUND and runner.run.space == SHARED
        if kept and runner.seq >= 0 and awaited:
            self.tails.add(runner.path)  # somebody is reading it, and may go on from it
        self.detach(runner, row, kept)
        self._rest(runner, kept)
        branch.finish_reason, branch.stop_text = reason, stop_text
        branch.state = BranchState.DONE
        runner.run.events.append(Finished(branch.index, reason, len(branch.buffer.ids), stop_text))

    def _rest(self, runner: Runner, kept: bool) -> None:
        """Somebody may let the branch go on: what it draws next is what it would have drawn."""
        if kept and runner.chain is not None and runner.chain.pointer:
            self.resting.add(runner.chain)
            runner.unconstrain()
        else:
            runner.close_chain()

    def discard(self, runner: Runner) -> None:
        """An ended branch was thrown away: what the cache holds of it alone is given back, its text stays."""
        branch, path = runner.branch, runner.path
        self.tails.remove(path)
        self.cache.forget(path, len(runner.base), runner.run.space)
        runner.close_chain()
        branch.finish_reason, branch.stop_text = FinishReason.KILLED, None
        runner.run.events.append(Finished(branch.index, FinishReason.KILLED, len(branch.buffer.ids)))

    def flush(self, runner: Runner) -> None:
        """Publish what was held back; text that typing announced and no token spells yet becomes the tail."""
        held = runner.text.finish()
        if runner.skip:
            held = self._hide(runner, held)
        if held:
            runner.buffer.pieces.append(held)
            if runner.buffer.ends:
                runner.buffer.ends[-1] = max(runner.buffer.ends[-1], runner.text.decoded - runner.hidden)
            runner.run.events.append(Text(runner.branch.index, held))
        if runner.heal is not None:
            ends = runner.buffer.ends
            runner.buffer.tail = runner.branch.text[max(ends[-1], 0) if ends else 0 :]

    def detach(self, runner: Runner, row: Row = None, keep: bool = True) -> None:
        """Take the branch off its sequence, which stays in the cache as long as room allows."""
        seq, runner.seq = runner.seq, -1
        runner.todo = ()
        pending, runner.pending = runner.pending, None
        if pending is not None:
            runner.drawn, row = pending.token, pending.logits
        if seq < 0:
            return
        length = len(runner.path) if keep else len(runner.base)
        evaluated = self.cache.tree.tip[seq].end
        if length < evaluated:
            if not self.cache.rewind(seq, length) and not keep:
                self.cache.drop(seq)
                return
        elif length == evaluated and row is not None:
            self.cache.store_logits(seq, self.context.logits(row) if isinstance(row, int) else row)
        self.cache.park(seq)

    def set_state(self, runner: Runner, state: BranchState) -> None:
        if runner.branch.state is not state:
            runner.branch.state = state
            runner.run.events.append(StateChanged(runner.branch.index, state))

    def break_off(self, runner: Runner, error: EngineError) -> None:
        """End one branch because of ``error``, and the request if it was the last that had not failed."""
        branch = runner.branch
        log.warning("request %d, branch %d: %s", runner.run.generation.number, branch.index, error)
        self.flush(runner)
        self.detach(runner)
        runner.close_chain()
        branch.state, branch.finish_reason, branch.error = BranchState.FAILED, FinishReason.ERROR, error
        tokens = len(branch.buffer.ids)
        runner.run.events.append(Finished(branch.index, FinishReason.ERROR, tokens, problem=str(error)))
        if all(r.branch.state is BranchState.FAILED for r in runner.run.runners):
            self.fail_run(runner.run, error)

    def _fail(self, runner: Runner, error: Exception) -> None:
        log.warning("request %d: %s", runner.run.generation.number, error, exc_info=error)
        if not isinstance(error, EngineError):
            error = InvalidRequest("logits_callback", f"it raised {type(error).__name__}: {error}")
        self.fail_run(runner.run, error)

    def fail_run(self, run: Run, error: EngineError) -> None:
        """End every branch of a request because of ``error``."""
        run.failed = True
        for runner in run.runners:
            if runner.branch.live:
                self.flush(runner)
                self.detach(runner)
                runner.close_chain()
                runner.branch.state = BranchState.FAILED
                runner.branch.finish_reason, runner.branch.error = FinishReason.ERROR, error
        failed: Event = Failed(error)
        run.events.append(failed)


def _now_and_then(runner: Runner) -> bool:
    """Whether this token is one of those at which a whole row is looked at."""
    return len(runner.buffer.ids) % 16 == 0


def last_token_prefix(model: Model, ids: Sequence[int], text: str) -> bytes:
    """What token healing takes off a prompt that ends in typed ``text``: the last token's bytes.

    Nothing after a line break (a finished line is not completed), nor where the token is not
    text of its own.
    """
    if len(ids) < 2 or not text or text.endswith("\n"):
        return b""
    last = model.pieces.text[ids[-1]]
    return last.encode() if last and text.endswith(last) else b""
