"""Commands to the local engine: they are carried out between two steps.

A command takes a branch off its sequence, changes its text, and lets admission put it back where the cache
already holds most of it. Runs on the engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from .active import ActiveBranch, ActiveRequest, constraint_key
from .constraints import PrefixConstraint, compile_constraint
from .generation import Command, Generation, listener_error
from .model import Model
from .processors.siblings import share_draws
from .prompt import token_ids
from .queue import Queue
from .sampling_loop import SamplingLoop, in_words
from .steering import Steering, take_up, typed_text
from .tree import Namespace
from .types import (
    FinishReason,
    InvalidRequest,
    Priority,
    Sampling,
    for_each,
)

log = logging.getLogger(__name__)


class Commands(Steering[ActiveBranch]):
    """Carries out commands on the local engine's requests."""

    def __init__(self, model: Model, loop: SamplingLoop, queue: Queue) -> None:
        self.model, self.loop, self.queue = model, loop, queue
        self.pieces = model.pieces
        self.promote = queue.promote

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
                command.carry_out(self, request, request.branches)
        except Exception as error:  # nobody else has to do with it
            log.warning("request %d, %s: %s", request.generation.number, command.verb, error)
            self.loop.fail_request(request, in_words(error))
        request.generation.arrived(command)
        self._again(request)

    def fail(self, request: ActiveRequest, error: BaseException) -> None:
        """End a request of which a listener raised ``error``."""
        if request.live:
            self.loop.fail_request(request, listener_error(error))

    def _again(self, request: ActiveRequest) -> None:
        """A new request, or a finished one that has something to do or to say, is served."""
        if request not in self.queue.requests:
            self.queue.requests.append(request)
            self.queue.cache.read_story(request.ids, request.namespace)
            for active in request.branches:
                active.since = self.queue.step

    # ---- how this engine computes branches

    def settle_tail(self, writer: ActiveBranch) -> None:
        if writer.buffer.tail:
            writer.settle_tail(self.model.tokenize_continuation(writer.text_without_tokens))

    def finish(self, writer: ActiveBranch, reason: FinishReason) -> None:
        self.queue.unlist(writer)
        self.loop.finish(writer, reason, None)
        if not writer.request.live and writer.request.scoring is not None:
            self.queue.suspend(writer.request.scoring)

    def discard(self, writer: ActiveBranch) -> None:
        self.loop.discard(writer)

    def release(self, writer: ActiveBranch, keep: bool = True) -> None:
        self.queue.unlist(writer)
        self.loop.detach(writer)

    def revive(self, writer: ActiveBranch) -> None:
        writer.since = self.queue.step
        super().revive(writer)

    def follow_rules(self, writer: ActiveBranch) -> None:
        if writer.seq >= 0 and not self.loop.prepare(writer):
            self.queue.drop_ended()

    def heal(self, writer: ActiveBranch, text: str) -> None:
        writer.heal = PrefixConstraint(self.model.piece_index, text.encode())
        writer.spell_again(text)


def _answer(asked: Future[Any], function: Callable[[], Any]) -> None:
    if asked.set_running_or_notify_cancel():
        try:
            asked.set_result(function())
        except BaseException as error:  # whoever asked gets it
            asked.set_exception(error)


def make_request(
    generation: Generation, ids: list[int], pending_prefix: bytes, seed: int, model: Model, n_ctx: int,
    namespace: Namespace,
) -> ActiveRequest:  # fmt: skip
    """A new request and its branches, in a context of ``n_ctx`` tokens.

    Raises InvalidRequest for a grammar that is none.
    """
    asked = generation.request
    request = ActiveRequest(generation, ids, pending_prefix, namespace, model.eog_ids)
    request.shared_draws = share_draws(request)
    if asked.penalty_prompt is not None:
        request.history_ids = token_ids(model, "penalty_prompt", asked.penalty_prompt, asked.parse_special)
    if request.wants_next_logprobs and pending_prefix:
        request.ending = PrefixConstraint(model.piece_index, pending_prefix)
    samplings, stops = for_each(asked.sampling, asked.n), for_each(asked.stop, asked.n)
    for index, (sampling, stop) in enumerate(zip(samplings, stops, strict=True)):
        own = sampling.seed if isinstance(asked.sampling, tuple) else None
        request.add_branch(sampling, stop, request.seed(own, seed, index), model.pieces)
    for active in request.branches:
        compile_for(request, active.sampling, model)
        if not asked.takes:
            active.begin(asked.begin, asked.without, model.pieces)
            if asked.priority is not Priority.BACKGROUND and not active.buffer.ids:
                with suppress(InvalidRequest):  # the branch says so when it is its turn
                    template = request.template_for(active, model, n_ctx)
                    active.chain = template.new(active.branch.seed)
    for active, take in zip(request.branches, asked.takes, strict=False):
        take_up(active, take, model)
    generation.engine_state = request
    return request


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
    if request.asked.heal:
        _ = model.piece_index
    more = typed_text(model, command.args[0], request.pending_text, request.asked.heal)
    return command._replace(args=command.args + more)


def compile_for(request: ActiveRequest, sampling: Sampling, model: Model) -> None:
    """Compile the constraint on the caller's thread: the first of a model takes a while.

    Raises InvalidRequest for a grammar that is none.
    """
    key = constraint_key(sampling)
    if any(key) and key not in request.constraints:
        request.constraints[key] = compile_constraint(sampling, model)
