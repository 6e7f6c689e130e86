"""From a row of logits to a published token: sampling, stop rules, the end of a branch.

Called by the scheduler on the engine thread, once per branch and step. Knows runners and rows,
nothing of admission and queues.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .cache import Cache
from .chains import Resting, derive_seed
from .constraints import Constraint, PieceIndex, PrefixConstraint, compile_constraint
from .model import Model
from .native.context import Context
from .native.library import library
from .runner import ChainIs, Run, Runner, constraint_key, score, tokens_within
from .sampling import SamplerTemplate
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
    Priority,
    StateChanged,
    Text,
    TokenLogprob,
)

log = logging.getLogger(__name__)

_PLACES = 1 << 32  # seeds derived for places in a text lie beyond those of samplers and takes


class Writer:
    """Samples and publishes for all branches of one context."""

    def __init__(self, model: Model, context: Context, cache: Cache, tails: Tails) -> None:
        self.model, self.context, self.cache, self.tails = model, context, cache, tails
        self.now = 0.0  # time.monotonic() of this step
        self.generated = 0
        self.resting = Resting()
        self._sample = library().llama_sampler_sample
        self._index: PieceIndex | None = None
        self._eog = model.eog
        self._eog_ids = np.fromiter(model.eog, np.int64, len(model.eog))

    # ---- starting

    def prepare(self, runner: Runner) -> None:
        """Build what the branch samples with, primed with the text it continues.

        Raises InvalidRequest for settings that cannot be built.
        """
        run, ids = runner.run, runner.buffer.ids
        chain = runner.chain if runner.chain is not None and runner.chain.pointer else None
        if chain is None or runner.chain_is is ChainIs.OUTDATED:
            # a seed of its own for each place, or the numbers drawn before would be drawn again
            seed = derive_seed(runner.branch.seed, _PLACES + len(ids)) if ids else runner.branch.seed
            runner.chain = chain = self._template(run, runner).new(seed, ids, chain)
        elif runner.chain_is is ChainIs.STALE:
            chain.remember(runner.path)
        chain.rests = 0
        runner.chain_is = ChainIs.RIGHT
        if not runner.constrained:
            self._constrain(runner)
        if not ids and run.heal_prefix and runner.base is run.ids and runner.heal is None:
            self.heal(runner, run.heal_prefix)
            runner.hidden = runner.branch.overlap = len(run.heal_prefix.decode("utf-8", "replace"))
        self.refresh(runner)

    def _constrain(self, runner: Runner) -> None:
        """Bring the constraint to where the text ends."""
        constraint = self._constraint(runner.run, runner)
        if constraint is not None:
            constraint = constraint.fork()
            if not all(constraint.allows(t) and constraint.accept(t) is None for t in runner.buffer.ids):
                log.warning("branch %d broke its grammar, which is off now", runner.branch.index)
                constraint = None
        runner.constraint, runner.constrained = constraint, True

    def heal(self, runner: Runner, prefix: bytes) -> None:
        """Make the next tokens spell ``prefix``, the end of the text so far, again."""
        runner.heal = PrefixConstraint(self.index, prefix)
        runner.skip = len(prefix.decode("utf-8", "replace"))
        text = runner.branch.text
        runner.text.restart(text[: max(len(text) - runner.skip, 0)], len(runner.buffer.ids), runner.skip)

    @property
    def index(self) -> PieceIndex:
        if self._index is None:
            self._index = PieceIndex(self.model.pieces.bytes)
        return self._index

    def refresh(self, runner: Runner) -> None:
        """Decide whether llama.cpp can sample this branch in a single call."""
        runner.fast = (
            runner.heal is None
            and runner.constraint is None
            and runner.run.request.logits_callback is None
            and runner.run.request.logprobs is None
            and len(runner.buffer.ids) >= runner.min_tokens
        )

    def _template(self, run: Run, runner: Runner) -> SamplerTemplate:
        sampling = replace(runner.sampling, seed=None)  # branches that differ in their seeds share it
        key = sampling, runner.ignore_eog
        template = run.templates.get(key)
        if template is None:
            banned = sorted(self._eog) if runner.ignore_eog else ()
            template = SamplerTemplate(sampling, self.model, self.context.cells, banned)
            if template.history_length:
                template.prime(run.ids[-template.history_length :])
            run.templates[key] = template
        return template

    def _constraint(self, run: Run, runner: Runner) -> Constraint | None:
        key = constraint_key(runner.sampling)
        if key not in run.constraints:
            run.constraints[key] = compile_constraint(runner.sampling, self.model)
        return run.constraints[key]

    # ---- one token

    def next_token(self, runner: Runner, row: int) -> None:
        """Sample from a row of the decode that just ended, and publish."""
        if runner.fast and runner.chain is not None:
            self.publish(runner, self._sample(runner.chain.pointer, self.context.pointer, row), row, None)
        else:
            self.sample_from(runner, self.context.logits(row), row)

    def sample_from(self, runner: Runner, logits: NDArray[np.float32], row: int | None) -> None:
        """Sample from logits at hand (stored ones have no row), and publish."""
        try:
            token = self._choose(runner, logits)
        except Exception as error:  # a callback is the caller's code
            self._fail(runner, error)
            return
        if token is None:
            self.finish(runner, FinishReason.STOP, row)
            return
        wanted = runner.run.request.logprobs
        self.publish(runner, token, row, None if wanted is None else score(logits, token, wanted))
        constraint = runner.constraint
        if constraint is not None and constraint.finished and runner.branch.live:
            self.finish(runner, FinishReason.STOP, None)

    def _choose(self, runner: Runner, logits: NDArray[np.float32]) -> int | None:
        """A token, accepted by the chain and the constraint; None when none is allowed."""
        chain, constraint = runner.chain, runner.heal or runner.constraint
        assert chain is not None
        edited = self._edited(runner, logits)
        token = chain.pick(edited)
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
                self.refresh(runner)
        return token

    def _edited(self, runner: Runner, logits: NDArray[np.float32]) -> NDArray[np.float32]:
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

    def publish(self, runner: Runner, token: int, row: int | None, logprob: TokenLogprob | None) -> None:
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
            self.refresh(runner)

    def _first_token(self, runner: Runner) -> None:
        runner.branch.started_at = self.now
        seconds = runner.branch.stop_rule.max_seconds
        runner.deadline = None if seconds is None else self.now + seconds

    def _hide(self, runner: Runner, text: str) -> str:
        hidden = min(runner.skip, len(text))
        runner.skip -= hidden
        return text[hidden:]

    def _stop_at(
        self, runner: Runner, text: str, keep: int, reason: FinishReason, stop_text: str | None,
        row: int | None, logprob: TokenLogprob | None,
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
        self, runner: Runner, reason: FinishReason, row: int | None, stop_text: str | None = None,
        flush: bool = True,
    ) -> None:
        """End a branch; its sequence is parked, with its logits when it ends exactly there."""
        branch = runner.branch
        if flush:
            self.flush(runner)
        kept = reason is not FinishReason.KILLED
        if kept and runner.seq >= 0 and runner.run.request.priority is Priority.FOREGROUND:
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
        self.cache.forget(path, len(runner.base))
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

    def detach(self, runner: Runner, row: int | None = None, keep: bool = True) -> None:
        """Take the branch off its sequence, which stays in the cache as long as room allows."""
        seq, runner.seq = runner.seq, -1
        runner.todo = ()
        if seq < 0:
            return
        length = len(runner.path) if keep else len(runner.base)
        evaluated = self.cache.tree.tip[seq].end
        if length < evaluated:
            if not self.cache.rewind(seq, length) and not keep:
                self.cache.drop(seq)
                return
        elif length == evaluated and row is not None:
            self.cache.store_logits(seq, self.context.logits(row))
        self.cache.park(seq)

    def set_state(self, runner: Runner, state: BranchState) -> None:
        if runner.branch.state is not state:
            runner.branch.state = state
            runner.run.events.append(StateChanged(runner.branch.index, state))

    def _fail(self, runner: Runner, error: Exception) -> None:
        log.warning("request %d: %s", runner.run.generation.number, error, exc_info=error)
        if not isinstance(error, EngineError):
            error = InvalidRequest("logits_callback", f"it raised {type(error).__name__}: {error}")
        self.fail_run(runner.run, error)

    def fail_run(self, run: Run, error: EngineError) -> None:
        """End every branch of a request because of ``error``."""
        for runner in run.runners:
            if runner.branch.live:
                self.flush(runner)
                self.detach(runner)
                runner.close_chain()
                runner.branch.state = BranchState.FAILED
                runner.branch.finish_reason = FinishReason.ERROR
        failed: Event = Failed(error)
        run.events.append(failed)


def last_token_prefix(model: Model, ids: Sequence[int], text: str) -> bytes:
    """What token healing takes off a prompt that ends in typed ``text``: the last token's bytes.

    Nothing after a line break (a finished line is not completed), nor where the token is not
    text of its own.
    """
    if len(ids) < 2 or not text or text.endswith("\n"):
        return b""
    last = model.pieces.text[ids[-1]]
    return last.encode() if last and text.endswith(last) else b""
