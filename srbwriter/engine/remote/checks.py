"""Checks of requests to a server, made before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..capabilities import Capabilities, Feature
from ..checks import RequestChecks
from ..generation import Command
from ..limits import one_or_each
from ..parameters import PARAMETERS, notation, read_schema, validate
from ..types import InvalidRequest, NotSupported, Priority, Request, Sampling
from .profile import Profile

_SAMPLING = [row for row in PARAMETERS if row.record == "sampling"]


class RemoteChecks(RequestChecks):
    """The checks of every engine, and NotSupported for what the server cannot do."""

    def __init__(self, profile: Profile, max_branches: int) -> None:
        super().__init__(profile.info.n_vocab, max_branches)
        self.profile = profile
        self.capabilities: Capabilities = profile.capabilities

    def check_request(self, request: Request) -> None:
        super().check_request(request)
        wanted: dict[Feature, bool] = {
            "logits_callback": request.logits_callback is not None,
            "logprobs": request.logprobs is not None,
            "prompt_logprobs": request.prompt_logprobs is not None,
            "next_logprobs": request.next_logprobs is not None or bool(request.next_ids),
            "without": bool(request.without),
            "cache_prompt": not request.cache_prompt,
            "penalty_prompt": request.penalty_prompt is not None,
            "look_ahead": request.priority is Priority.AHEAD,
            "siblings": request.siblings != "independent",
            "repulsion": bool(request.repulsion),
        }
        for name, value in wanted.items():
            self.capabilities.require(name, value)
        _check_barred(request.without, one_or_each("sampling", request.sampling, request.n))
        for name in ("logprobs", "prompt_logprobs", "next_logprobs"):
            if (getattr(request, name) or 0) > self.profile.logprobs >= 0:
                raise InvalidRequest(name, f"{self.profile.server} tells {self.profile.logprobs} at most")

    def check_command(self, command: Command) -> None:
        super().check_command(command)
        if command.verb in ("reroll", "add_branch"):
            without = command.args[-1]
            self.capabilities.require("without", bool(without))
            given = [value for value in command.values() if isinstance(value, Sampling)]
            at = max(command.branch, 0)
            _check_barred(without, given or [command.generation.branches[at].sampling])

    def check_sampling(self, sampling: Any, request: Request) -> None:
        super().check_sampling(sampling, request)
        validate(sampling)
        if sampling.json_schema:
            read_schema(sampling.json_schema)
        for row in _SAMPLING:  # what stands where it always stands is left out
            self.capabilities.require(row, getattr(sampling, row.field) != row.default)

    def check_stop(self, stop: Any) -> None:
        super().check_stop(stop)
        self.capabilities.require("token_ids", bool(stop.token_ids))


def _check_barred(without: Sequence[int], samplings: Iterable[Sampling]) -> None:
    """Raise NotSupported for tokens barred at a position together with a constraint."""
    if without and any(map(notation, samplings)):
        raise NotSupported(
            "tokens are banned in one place by two requests there, and a grammar cannot go on in the middle"
        )
