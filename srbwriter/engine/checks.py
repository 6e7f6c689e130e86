"""Checks of requests and verbs that hold for every engine, made on the caller's thread.

A request that passes can be carried out, or fails with a reason, so a bad value never costs another request
anything. Knows the table of parameters and the size of the vocabulary; starts nothing.
"""

from __future__ import annotations

from typing import Any

from . import limits
from .fields import check_fields
from .generation import Command
from .types import InvalidRequest, LimitExceeded, Request, Sampling, Stop
from .verbs import VERBS


def check_type(name: str, value: object, kind: type) -> None:
    """Raise InvalidRequest for a value that is no ``kind``."""
    if not isinstance(value, kind):
        raise InvalidRequest(name, f"{value!r} is not a {kind.__name__}")


class RequestChecks:
    """Raise InvalidRequest for the first field that cannot mean anything, LimitExceeded for ``n``."""

    def __init__(self, n_vocab: int, max_branches: int) -> None:
        self.n_vocab, self.max_branches = n_vocab, max_branches

    def check_request(self, request: Request) -> None:
        """Check everything but the prompt."""
        check_fields(request)
        if request.n > self.max_branches:
            raise LimitExceeded(request.n, self.max_branches)
        for sampling in limits.one_or_each("sampling", request.sampling, request.n):
            self.check_sampling(sampling, request)
        for stop in limits.one_or_each("stop", request.stop, request.n):
            self.check_stop(stop)
        for take in request.takes:
            try:
                check_fields(take)
            except InvalidRequest as error:
                raise InvalidRequest("takes", str(error)) from None
        for field in ("next_ids", "begin", "without"):
            limits.check_ids(field, getattr(request, field), self.n_vocab)
        for field in ("next_logprobs", "next_ids"):
            if (request.begin or request.takes) and getattr(request, field) not in (None, ()):
                raise InvalidRequest(
                    field, "it is about what follows the prompt: ask without begin and takes"
                )
        if request.logits_callback is not None and not callable(request.logits_callback):
            raise InvalidRequest("logits_callback", "it cannot be called")

    def check_command(self, command: Command) -> None:
        """Check a verb and its arguments."""
        verb = VERBS.get(command.verb)
        n = 1
        for argument, given in zip(verb.arguments, command.args, strict=True) if verb is not None else ():
            for value in limits.one_or_each(argument.name, given, n) if argument.each else (given,):
                argument.check(command.verb, value)
                if isinstance(value, Sampling):
                    self.check_sampling(value, command.generation.request)
                elif isinstance(value, Stop):
                    self.check_stop(value)
                elif isinstance(value, tuple):
                    limits.check_ids(command.verb, value, self.n_vocab)
            if argument.kinds == ("branches",):
                n, have = given, len(command.generation.branches)
                if not 1 <= n <= self.max_branches:
                    raise LimitExceeded(n, self.max_branches)
                if have + n > limits.BRANCHES:
                    problem = f"the request has had {have} branches, {limits.BRANCHES} are possible"
                    raise InvalidRequest("n", problem)

    def check_sampling(self, sampling: Any, request: Request) -> None:
        """Check settings that a branch of ``request`` is to sample by."""
        check_type("sampling", sampling, Sampling)

    def check_stop(self, stop: Any) -> None:
        """Check a stop rule."""
        check_type("stop", stop, Stop)
        check_fields(stop)
        limits.check_ids("stop_token_ids", stop.token_ids, self.n_vocab)
