"""Commands to the local engine: they are carried out between two steps.

A verb takes a branch off its sequence, changes its text or its rules, and lets admission put it back where
the cache already holds most of it. Runs on the engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple, cast

from .active import ActiveBranch, ActiveRequest
from .constraints import PrefixConstraint
from .generation import BEYOND_THE_END, BranchCommand, Generation
from .model import Model
from .queue import Queue
from .sampling_loop import SamplingLoop, in_words
from .types import Added, BranchState, FinishReason, InvalidRequest, Priority, Sampling, Stop, for_each

log = logging.getLogger(__name__)


class FunctionCall(NamedTuple):
    """A function to be called between two steps, whose caller waits."""

    asked: Future[Any]
    function: Callable[[], Any]

    def answer(self) -> None:
        if self.asked.set_running_or_notify_cancel():
            try:
                self.asked.set_result(self.function())
            except BaseException as error:  # whoever asked gets it
                self.asked.set_exception(error)


class Commands:
    """Carries out commands on requests: a method for each verb of :data:`.verbs.VERBS`."""

    def __init__(self, model: Model, loop: SamplingLoop, queue: Queue) -> None:
        self.model, self.loop, self.queue = model, loop, queue
        self.promote = queue.promote

    def handle(self, command: BranchCommand | FunctionCall) -> None:
        """Carry out one command. An error it causes ends the request it concerns, nothing else."""
        if isinstance(command, FunctionCall):
            command.answer()
            return
        request = command.generation.engine_state
        if not isinstance(request, ActiveRequest):
            return
        try:
            if request.generation.error is None and not request.failed and command.verb != "submit":
                whole = command.branch < 0
                for target in (request,) if whole else request.branches[command.branch : command.branch + 1]:
                    getattr(self, command.verb)(target, *command.args)
        except Exception as error:  # nobody else has to do with it
            log.warning("request %d, %s: %s", request.generation.number, command.verb, error)
            self.loop.fail_request(request, in_words(error))
        request.generation.arrived(command)
        if request not in self.queue.requests:  # new, or finished and with something to do or to say
            self.queue.requests.append(request)
            self.queue.cache.read_story(request.ids, request.salt)
            for active in request.branches:
                active.since = self.queue.step

    # ---- ending and pausing

    def stop(self, active: ActiveBranch) -> None:
        if active.branch.live:
            self.loop.finish(active, FinishReason.STOPPED, None)

    def cancel(self, request: ActiveRequest) -> None:
        for active in request.branches:
            self.stop(active)

    def kill(self, active: ActiveBranch) -> None:
        branch = active.branch
        if branch.live:
            self.loop.finish(active, FinishReason.KILLED, None)
        elif branch.state is BranchState.DONE and branch.finish_reason is not FinishReason.KILLED:
            self.loop.give_back(active)
            active.restart_sampling()
            active.end(BranchState.DONE, FinishReason.KILLED)

    def pause(self, active: ActiveBranch) -> None:
        if active.branch.live and active.branch.state is not BranchState.PAUSED:
            self.loop.detach(active)
            active.set_state(BranchState.PAUSED)

    def resume(self, active: ActiveBranch) -> None:
        if active.branch.state is BranchState.PAUSED:
            active.set_state(BranchState.WAITING)

    # ---- another text

    def reroll(
        self, active: ActiveBranch, seed: int | None, sampling: Sampling | None, stop: Stop | None,
        begin: Sequence[int], without: Sequence[int],
    ) -> None:  # fmt: skip
        self.loop.detach(active)
        branch, request = active.branch, active.request
        if sampling is not None:
            active.sampling = branch.sampling = sampling
        if stop is not None:
            branch.stop_rule = stop
        branch.seed = request.seed(seed, branch.seed, branch.buffer.revision + 1)
        active.restart_attempt()
        active.begin(begin, without)
        self._revive(active)

    def extend(self, active: ActiveBranch, stop: Stop | int | None) -> None:
        branch = active.branch
        if branch.live and stop is None:
            return
        if not branch.live and (whole := active.decode_again(active.written)) < active.written:
            active.back_to(whole)  # it ended inside a character, which is written anew
        self._settle_tail(active)
        if isinstance(stop, Stop):
            self.change(active, None, stop)
        else:
            active.set_stop(branch.stop_rule, stop if stop is not None else branch.stop_rule.max_tokens)
            self._follow_rules(active)
        if not branch.live:
            if branch.finish_reason is FinishReason.EOG:  # else it would choose the end again at once
                active.min_tokens = max(active.min_tokens, active.written + BEYOND_THE_END)
            if not active.still_healing:
                active.restart_text()
            self._revive(active)

    def rewind(
        self, active: ActiveBranch, tokens: int | None, chars: int | None, sentences: int | None,
        seed: int | None,
    ) -> None:  # fmt: skip
        self.loop.detach(active)
        branch = active.branch
        kept = active.branch.chars_before(tokens, chars, sentences)
        if kept > 0:
            active.back_to(active.tokens_within(kept), kept, tell=True)
            active.restart_text()
            active.restart_sampling()
            self._settle_tail(active)
        else:
            active.restart_attempt()
        branch.seed = active.request.seed(seed, branch.seed, branch.buffer.revision + 1)
        active.set_stop(branch.stop_rule)
        self._revive(active)

    # ---- other rules

    def change(self, active: ActiveBranch, sampling: Sampling | None, stop: Stop | None) -> None:
        ignored_eog = active.ignore_eog
        if stop is not None:
            active.set_stop(stop)
        if sampling is not None:
            active.sampling = active.branch.sampling = sampling
        if sampling is not None or active.ignore_eog != ignored_eog:
            active.rules_changed()
        if sampling is not None and sampling.seed is not None:
            active.branch.seed = sampling.seed
            active.restart_sampling()
        if stop is not None and active.branch.live and active.buffer.ids and active.limit <= active.written:
            self.loop.finish(active, FinishReason.LENGTH, None)
        else:
            self._follow_rules(active)

    # ---- another prompt

    def set_prompt(self, active: ActiveBranch, prompt: Sequence[int]) -> None:
        self.loop.detach(active)
        active.rows.clear()  # they followed the prompt until now
        if active.base is not (base := prompt or active.request.ids):
            active.base = base
            active.text_changed()
        if active.branch.live and active.branch.state is not BranchState.PAUSED:
            self._revive(active)

    # ---- more branches

    def add_branch(
        self, request: ActiveRequest, n: int, samplings: Sampling | tuple[Sampling, ...] | None,
        stops: Stop | tuple[Stop, ...] | None, begin: Sequence[int], without: Sequence[int],
    ) -> None:  # fmt: skip
        first = request.branches[0].branch
        for sampling, stop in zip(for_each(samplings, n), for_each(stops, n), strict=True):
            index = len(request.branches)
            seed = request.seed(sampling.seed if sampling is not None else None, first.seed, index)
            active = request.add_branch(sampling or first.sampling, stop or first.stop_rule, seed)
            request.events.append(Added(index))
            active.begin(begin, without)

    # ---- on and off its sequence

    def _revive(self, active: ActiveBranch) -> None:
        """Let a branch wait to be served again."""
        branch = active.branch
        active.since = self.queue.step
        branch.finish_reason = branch.stop_text = branch.error = None
        active.set_state(BranchState.WAITING)

    def _follow_rules(self, active: ActiveBranch) -> None:
        """Apply new rules to a branch that is being computed."""
        if active.seq >= 0 and not self.loop.prepare(active):
            self.queue.drop_ended()

    def _settle_tail(self, active: ActiveBranch) -> None:
        if active.buffer.tail:
            active.settle_tail(self.model.tokenize_continuation(active.text_without_tokens))


def make_request(
    generation: Generation, ids: list[int], pending_prefix: bytes, seed: int, model: Model, n_ctx: int,
    salt: str,
) -> ActiveRequest:  # fmt: skip
    """A new request and its branches, in a context of ``n_ctx`` tokens.

    Raises InvalidRequest for a grammar that is none.
    """
    asked = generation.request
    request = ActiveRequest(generation, ids, pending_prefix, salt, model)
    if request.wants_next_logprobs and pending_prefix:
        request.ending = PrefixConstraint(model.piece_index, pending_prefix)
    samplings, stops = for_each(asked.sampling, asked.n), for_each(asked.stop, asked.n)
    for index, (sampling, stop) in enumerate(zip(samplings, stops, strict=True)):
        own = sampling.seed if isinstance(asked.sampling, tuple) else None
        request.add_branch(sampling, stop, request.seed(own, seed, index))
    for active in request.branches:
        request.compile_constraint(active.sampling)
        if not asked.takes:
            active.begin(asked.begin, asked.without)
            if asked.priority is not Priority.BACKGROUND and not active.buffer.ids:
                with suppress(InvalidRequest):  # the branch says so when it is its turn
                    active.chain = request.template_for(active, n_ctx).new(active.branch.seed)
    for active, take in zip(request.branches, asked.takes, strict=False):
        whole = request.pending_text + take.text
        try:
            known = model.detokenize(take.ids) == whole
        except InvalidRequest:  # the ids are those of another vocabulary
            known = False
        active.take_up(take, take.ids if known else model.tokenize_continuation(whole))
    generation.engine_state = request
    return request


def prepare(command: BranchCommand, model: Model) -> None:
    """Make what a command needs that takes long. Raises InvalidRequest for a grammar that is none."""
    request = command.generation.engine_state
    for argument in command.args:
        for value in cast("tuple[Any, ...]", argument) if isinstance(argument, tuple) else (argument,):
            if isinstance(value, Sampling):
                request.compile_constraint(value)
