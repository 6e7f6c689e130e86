"""Checks of requests and verbs that hold for every engine, made on the caller's thread.

A request that passes can be carried out, or fails with a reason, so a bad value never costs another request
anything. Knows the table of parameters and the size of the vocabulary; starts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import limits
from .fields import check_fields
from .generation import BranchCommand
from .types import InvalidRequest, LimitExceeded, Request, Sampling, Stop
from .verbs import VERBS


@dataclass(frozen=True)
class Checks:
    """Raise InvalidRequest for the first field that cannot mean anything, LimitExceeded for ``n``.

    ``check_rules`` says what this engine cannot sample by, or end by, in a branch of a request.
    """

    n_vocab: int
    max_branches: int
    check_rules: Callable[[Request, Sequence[Sampling], Sequence[Stop]], None]

    def check_request(self, request: Request) -> None:
        """Check everything but the prompt."""
        check_fields(request)
        if request.n > self.max_branches:
            raise LimitExceeded(request.n, self.max_branches)
        self._check_rules(
            request,
            limits.one_or_each("sampling", request.sampling, request.n),
            limits.one_or_each("stop", request.stop, request.n),
        )
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

    def check_command(self, command: BranchCommand) -> None:
        """Check a verb and its arguments."""
        verb, n, request = VERBS.get(command.verb), 1, command.generation.request
        for argument, given in zip(verb.arguments, command.args, strict=True) if verb is not None else ():
            each = argument.name in ("sampling", "stop")  # of several branches one or one for each
            for value in limits.one_or_each(argument.name, given, n) if each else (given,):
                argument.check(command.verb, value)
                if isinstance(value, Sampling):
                    self._check_rules(request, (value,), ())
                elif isinstance(value, Stop):
                    self._check_rules(request, (), (value,))
                elif isinstance(value, tuple):
                    limits.check_ids(command.verb, value, self.n_vocab)
            if argument.name == "n":
                n, have = given, len(command.generation.branches)
                if not 1 <= n <= self.max_branches:
                    raise LimitExceeded(n, self.max_branches)
                if have + n > limits.BRANCHES:
                    problem = f"the request has had {have} branches, {limits.BRANCHES} are possible"
                    raise InvalidRequest("n", problem)

    def _check_rules(self, request: Request, samplings: Sequence[Sampling], stops: Sequence[Stop]) -> None:
        for stop in stops:
            check_fields(stop)
            limits.check_ids("stop_token_ids", stop.token_ids, self.n_vocab)
        self.check_rules(request, samplings, stops)
