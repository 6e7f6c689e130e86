"""Checks of requests to a server, made before anything is sent."""

from __future__ import annotations

from typing import Any

from ..capabilities import Capabilities, Feature
from ..checks import RequestChecks
from ..generation import Command
from ..parameters import PARAMETERS, read_schema, validate
from ..types import InvalidRequest, Priority, Request
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
        if request.logprobs:
            raise InvalidRequest("logprobs", "only those of written tokens come from elsewhere: 0 at most")

    def check_command(self, command: Command) -> None:
        super().check_command(command)
        self.capabilities.require("pause", command.verb == "pause")
        if command.verb in ("reroll", "add_branch"):
            self.capabilities.require("without", bool(command.args[-1]))

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
