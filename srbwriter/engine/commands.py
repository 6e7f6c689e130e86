"""The verbs: what a branch handle's command does to its branch, between two steps.

Runs on the engine thread. A verb takes the branch off its sequence, changes its text, and lets
admission put it back where the cache already holds most of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from ..prose import last_sentence_start
from .active import ActiveBranch, ActiveRequest, constraint_key, tokens_within
from .constraints import PrefixConstraint, compile_constraint
from .generation import BEYOND_THE_END, BRANCH_VERBS, Branch, Buffer, Command, Generation
from .model import Model
from .prompt import Typed, Unfinished, token_ids, typed, unfinished
from .queue import Queue
from .sampling_loop import SamplingLoop, in_words
from .siblings import Siblings
from .tree import Namespace
from .types import (
    Added,
    BranchState,
    Cut,
    FinishReason,
    InvalidRequest,
    Priority,
    Sampling,
    Stop,
    Take,
    Text,
)

log = logging.getLogger(__name__)


class Commands:
    """Commands to state changes."""

    def __init__(self, model: Model, loop: SamplingLoop, queue: Queue) -> None:
        self.model, self.loop, self.queue = model, loop, queue
        self._verbs: dict[str, Callable[..., None]] = {verb: getattr(self, verb) for verb in BRANCH_VERBS}

    def handle(self, command: Command) -> None:
        """Carry out one command. An error it causes ends the request it concerns, nothing else."""
        if command.verb == "call":
            _answer(*command.args)
            return
        request = command.generation.engine_state
        if not isinstance(request, ActiveRequest):
            return
        try:
            if request.generation.error is None and not request.failed:
                self._handle(command, request)
        except Exception as error:  # nobody else has to do with it
            log.warning("request %d, %s: %s", request.generation.number, command.verb, error)
            self.loop.fail_request(request, in_words(error))
        request.generation.arrived(command)
        self._again(request)

    def _handle(self, command: Command, request: ActiveRequest) -> None:
        if command.verb == "cancel":
            for active in request.branches:
                self.stop(active)
        elif command.verb == "add_branch":
            self.add_branch(request, *command.args)
        elif command.verb == "promote":
            self.queue.promote(request, *command.args)
        elif 0 <= command.branch < len(request.branches):
            self._verbs[command.verb](request.branches[command.branch], *command.args)

    def _again(self, request: ActiveRequest) -> None:
        """A new request, or a finished one that has something to do or to say, is served."""
        if request not in self.queue.requests:
            self.queue.requests.append(request)
            if request.asked.priority is Priority.FOREGROUND:
                self.queue.broken_in = 1
            # Text under a salt is on the disk where a writer saw it: else nothing is looked for there.
            if not request.namespace.salt or request.asked.priority is Priority.FOREGROUND:
                self.queue.cache.open(request.namespace, request.ids[: request.namespace.start])
            for active in request.branches:
                active.since = self.queue.step

    # ---- ending and pausing

    def stop(self, active: ActiveBranch) -> None:
        self._end(active, FinishReason.STOPPED)

    def kill(self, active: ActiveBranch) -> None:
        branch = active.branch
        if branch.state is BranchState.DONE and branch.finish_reason is not FinishReason.KILLED:
            self.loop.discard(active)
        self._end(active, FinishReason.KILLED)

    def _end(self, active: ActiveBranch, reason: FinishReason) -> None:
        if active.branch.live:
            self.queue.unlist(active)
            self.loop.finish(active, reason, None)
            if not active.request.live and active.request.scoring is not None:
                self.queue.suspend(active.request.scoring)

    def pause(self, active: ActiveBranch) -> None:
        if active.branch.live and active.branch.state is not BranchState.PAUSED:
            self.queue.unlist(active)
            self.loop.detach(active)
            self.loop.set_state(active, BranchState.PAUSED)

    def resume(self, active: ActiveBranch) -> None:
        if active.branch.state is BranchState.PAUSED:
            self.loop.set_state(active, BranchState.WAITING)

    # ---- going on differently

    def reroll(
        self, active: ActiveBranch, seed: int | None, sampling: Sampling | None, stop: Stop | None,
        begin: tuple[int, ...], without: tuple[int, ...],
    ) -> None:  # fmt: skip
        self._take_off(active)
        branch = active.branch
        if sampling is not None:
            active.sampling = branch.sampling = sampling
        if stop is not None:
            branch.stop_rule = stop
        branch.seed = active.request.seed(seed, branch.seed, branch.buffer.revision + 1)
        active.new_take()
        branch.overlap = 0
        active.request.events.append(Cut(branch.index, 0, 0))
        active.begin(begin, without, self.model.pieces)
        self._revive(active)

    def extend(self, active: ActiveBranch, stop: Stop | int | None) -> None:
        branch = active.branch
        if branch.live and stop is None:
            return
        self._settle_tail(active)
        if isinstance(stop, Stop):
            self.set_stop(active, stop)
        elif not branch.live or stop is not None:
            more = stop if stop is not None else branch.stop_rule.max_tokens
            active.set_stop(branch.stop_rule, more)
        if not branch.live:
            if branch.finish_reason is FinishReason.EOG:  # else it would choose the end again at once
                active.min_tokens = max(active.min_tokens, len(branch.buffer.ids) + BEYOND_THE_END)
            if not active.still_healing:
                self._restart_text(active)
            self._revive(active)

    def rewind(
        self,
        active: ActiveBranch,
        tokens: int | None,
        chars: int | None,
        sentences: int | None,
        seed: int | None,
    ) -> None:
        self._take_off(active)
        branch = active.branch
        text = branch.text
        if tokens is not None:
            keep = max(len(branch.buffer.ids) - max(tokens, 0), 0)
            chars_kept = min(branch.buffer.ends[keep - 1], len(text)) if keep else 0
        elif chars is not None:
            chars_kept = max(len(text) - max(chars, 0), 0)
        else:
            chars_kept = last_sentence_start(text, sentences or 0)
        self._cut_to(active, text, chars_kept)
        branch.seed = active.request.seed(seed, branch.seed, branch.buffer.revision + 1)
        active.set_stop(branch.stop_rule)
        active.request.events.append(Cut(branch.index, chars_kept, len(branch.buffer.ids)))
        self._revive(active)

    def _cut_to(self, active: ActiveBranch, text: str, chars: int) -> None:
        """Keep ``chars`` characters; a token cut in half is written anew as typed text."""
        if chars <= 0:
            active.new_take()
            active.branch.overlap = 0
            return
        buffer = active.buffer
        kept = tokens_within(buffer, chars)
        begin = buffer.ends[kept - 1] if kept else 0
        rest = text[begin:chars]
        if not kept and active.request.heal_prefix:
            rest = active.request.heal_prefix.decode("utf-8", "replace") + rest
        active.cut(chars, self.model.tokenize_continuation(rest) if rest else ())

    def append(
        self, active: ActiveBranch, text: str, go_on: bool, alone: Typed, healed: Typed | None = None
    ) -> None:
        """``healed`` are the tokens where the text begins with what token healing took off the prompt."""
        branch = active.branch
        if not text:
            return
        goes_on = branch.live or go_on
        self._take_off(active)
        if branch.live:
            self.loop.flush(active)
        self._drop_half_spelt(active)
        self._settle_tail(active)
        if go_on and not branch.live:
            active.set_stop(branch.stop_rule, branch.stop_rule.max_tokens)
        unspelt = "" if active.buffer.ids else active.request.heal_prefix.decode("utf-8", "replace")
        new = healed if unspelt and healed is not None else alone
        if unspelt:
            branch.overlap = len(unspelt)
        heals = goes_on and active.request.asked.heal and not any(constraint_key(active.sampling))
        taken_off = unfinished(self.model, new.ids, text) if heals else Unfinished()
        kept = len(new.ids) - taken_off.tokens
        self._typed(active, text, Typed(new.ids[:kept], new.ends[:kept]), len(unspelt))
        if taken_off.tokens:
            self.loop.heal(active, taken_off.text.encode())
        if go_on or branch.live and branch.state is not BranchState.PAUSED:
            self._revive(active)

    def _typed(self, active: ActiveBranch, text: str, new: Typed, unspelt: int) -> None:
        """Add typed text. The tokens spell ``unspelt`` characters before it, too; its end they need not."""
        branch, buffer = active.branch, active.buffer
        begin = len(branch.text)
        buffer.typed.append((begin, begin + len(text)))  # before the text, so that no reader misses it
        buffer.pieces.append(text)
        buffer.logprobs += active.unscored(new.ids)
        buffer.ids.extend(new.ids)
        buffer.ends.extend(begin + max(end - unspelt, 0) for end in new.ends)
        active.limit += len(new.ids)
        active.text_changed()
        self._restart_text(active)
        active.request.events.append(Text(branch.index, text, tuple(new.ids)))

    def set_sampling(self, active: ActiveBranch, sampling: Sampling) -> None:
        active.sampling = active.branch.sampling = sampling
        active.rule_changed()
        if sampling.seed is not None:
            active.branch.seed = sampling.seed
            active.close_chain()
        self._prepare(active, anew=True)

    def change(self, active: ActiveBranch, sampling: Sampling, stop: Stop) -> None:
        self.set_sampling(active, sampling)
        self.set_stop(active, stop)

    def set_stop(self, active: ActiveBranch, stop: Stop) -> None:
        ignore, least = active.ignore_eog, active.min_tokens
        active.set_stop(stop)
        if active.ignore_eog != ignore:
            active.rule_changed()
        if active.branch.live and active.buffer.ids and active.limit <= len(active.buffer.ids):
            self._end(active, FinishReason.LENGTH)
        else:
            self._prepare(active, anew=(active.ignore_eog, active.min_tokens) != (ignore, least))

    def add_branch(
        self, request: ActiveRequest, n: int, samplings: Sampling | tuple[Sampling, ...] | None,
        stops: Stop | tuple[Stop, ...] | None, begin: tuple[int, ...], without: tuple[int, ...],
    ) -> None:  # fmt: skip
        first = request.branches[0].branch
        for k in range(n):
            index = len(request.branches)
            sampling = samplings[k] if isinstance(samplings, tuple) else samplings
            stop = stops[k] if isinstance(stops, tuple) else stops
            chosen = sampling if sampling is not None else first.sampling
            own = sampling.seed if sampling is not None else None
            seed = request.seed(own, first.seed, index)
            rule = stop if stop is not None else first.stop_rule
            branch = Branch(request.generation, index, chosen, rule, seed)
            request.generation.branches.append(branch)
            active = ActiveBranch(request, branch, self.model.pieces)
            request.branches.append(active)
            request.events.append(Added(index))
            active.begin(begin, without, self.model.pieces)

    # ---- inside

    def _prepare(self, active: ActiveBranch, anew: bool) -> None:
        """Let a branch that writes go on by other rules, or end in the attempt.

        ``anew``: a token that was drawn, and waits for a slow grammar, was drawn by rules that hold no more.
        """
        if active.pending is not None:
            self.queue.park(active)  # it chooses anew when it is let in
        elif active.seq >= 0 and not self.loop.prepare(active):
            self.queue.retire()
        if anew:
            active.drawn = None

    def _take_off(self, active: ActiveBranch) -> None:
        self.queue.unlist(active)
        self.loop.detach(active)

    def _revive(self, active: ActiveBranch) -> None:
        branch = active.branch
        branch.finish_reason = branch.stop_text = branch.error = None
        active.since = self.queue.step
        self.loop.set_state(active, BranchState.WAITING)

    def _restart_text(self, active: ActiveBranch) -> None:
        active.hidden = active.skip = 0
        active.heal = None
        active.text_is_another()
        active.text.restart(active.branch.text, len(active.buffer.ids))

    def _drop_half_spelt(self, active: ActiveBranch) -> None:
        """Tokens that spell only part of the prompt's end again: typed words begin with all of it."""
        buffer = active.buffer
        if buffer.ids and buffer.ends[-1] < 0:
            active.limit -= len(buffer.ids)
            buffer.ids.clear()
            buffer.ends.clear()
            buffer.logprobs.clear()
            active.text_changed()

    def _settle_tail(self, active: ActiveBranch) -> None:
        """Text that no token covers becomes tokens, so that the branch can go on from it."""
        buffer = active.buffer
        if buffer.tail:
            ids = self.model.tokenize_continuation(buffer.tail)
            buffer.ids.extend(ids)
            buffer.ends.extend([len(active.branch.text)] * len(ids))
            buffer.logprobs += active.unscored(ids)
            buffer.tail = ""
            active.text_changed()


def _answer(asked: Future[Any], function: Callable[[], Any]) -> None:
    if asked.set_running_or_notify_cancel():
        try:
            asked.set_result(function())
        except Exception as error:  # whoever asked gets it
            asked.set_exception(error)


def make_request(
    generation: Generation, ids: list[int], heal_prefix: bytes, seed: int, model: Model, n_ctx: int,
    namespace: Namespace,
) -> ActiveRequest:  # fmt: skip
    """A new request and its branches, in a context of ``n_ctx`` tokens.

    Raises InvalidRequest for a grammar that is none.
    """
    asked = generation.request
    request = ActiveRequest(generation, ids, heal_prefix, namespace)
    if asked.siblings != "independent" or asked.repulsion:
        request.siblings = Siblings(request, seed)
    if asked.penalty_prompt is not None:
        request.looked_back_at = token_ids(model, "penalty_prompt", asked.penalty_prompt, asked.parse_special)
    if request.to_foretell and heal_prefix:
        request.ending = PrefixConstraint(model.piece_index, heal_prefix)
    for index in range(asked.n):
        sampling = asked.sampling[index] if isinstance(asked.sampling, tuple) else asked.sampling
        stop = asked.stop[index] if isinstance(asked.stop, tuple) else asked.stop
        own = sampling.seed if isinstance(asked.sampling, tuple) and sampling.seed is not None else None
        branch = Branch(generation, index, sampling, stop, request.seed(own, seed, index))
        generation.branches.append(branch)
        request.branches.append(ActiveBranch(request, branch, model.pieces))
    for active in request.branches:
        compile_for(request, active.sampling, model)
        if not asked.takes:
            active.begin(asked.begin, asked.without, model.pieces)
            if asked.priority is Priority.FOREGROUND and not active.buffer.ids:  # others may wait for long
                with suppress(InvalidRequest):  # the branch says so when it is its turn
                    template = request.template_for(active, model, n_ctx)
                    active.chain = template.new(active.branch.seed)
    for active, take in zip(request.branches, asked.takes, strict=False):
        _take_up(active, take, model)
    generation.engine_state = request
    return request


def _take_up(active: ActiveBranch, take: Take, model: Model) -> None:
    """Let a branch stand where ``take`` ended."""
    branch, unspelt = active.branch, active.request.heal_prefix.decode("utf-8", "replace")
    ids, whole = list(take.ids), unspelt + take.text
    known = all(0 <= token < model.n_vocab for token in ids)
    if not known or model.detokenize(ids) != whole:
        ids = model.tokenize_continuation(whole)
    spelt, ends = b"", list[int]()
    for token in ids:
        spelt += model.pieces.bytes[token]
        ends.append(len(spelt.decode("utf-8", "ignore")) - len(unspelt))
    pieces = [take.text] if take.text else []
    branch.buffer = Buffer(pieces=pieces, ids=ids, ends=ends, logprobs=active.unscored(ids))
    branch.overlap = len(unspelt)
    branch.finish_reason, branch.state = take.finish_reason, BranchState.DONE
    active.text.restart(take.text, len(ids))
    active.said = len(ids)


def prepared(command: Command, model: Model) -> Command:
    """The command with what can be worked out before the engine's thread has it.

    Raises InvalidRequest for a grammar that is none.
    """
    request = command.generation.engine_state
    for value in command.values():
        if isinstance(value, Sampling):
            compile_for(request, value, model)
    if command.verb != "append":
        return command
    text, begun = command.args[0], request.heal_prefix.decode("utf-8", "replace")
    if request.asked.heal:
        _ = model.piece_index
    more = (typed(model, text), *((typed(model, begun + text),) if begun else ()))
    return command._replace(args=command.args + more)


def compile_for(request: ActiveRequest, sampling: Sampling, model: Model) -> None:
    """Compile the constraint on the caller's thread: the first of a model takes a while.

    Raises InvalidRequest for a grammar that is none.
    """
    key = constraint_key(sampling)
    if any(key) and key not in request.constraints:
        request.constraints[key] = compile_constraint(sampling, model)
