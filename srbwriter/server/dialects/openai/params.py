"""What an OpenAI request asks for, as the engine's Request; the same for completions and chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from srbwriter.engine.limits import check_range
from srbwriter.engine.types import Prompt, Request
from srbwriter.server.body import Fields, Params, read_params, stop_also
from srbwriter.server.errors import bad
from srbwriter.server.services import Services
from srbwriter.server.tools import Tools, constrain

HONOURED = (
    "response_format", "structured_outputs", "guided_choice", "ebnf", "tools", "tool_choice",
    "parallel_tool_calls", "truncate_prompt_tokens", "prompt_logprobs", "continuous_usage_stats",
)  # fmt: skip
"""Mean here what they mean there, beside all parameters of the engine's table."""

IGNORED = (
    "length_penalty", "spaces_between_special_tokens", "skip_special_tokens", "priority", "request_id",
    "return_tokens_as_token_ids", "user", "service_tier", "store", "metadata",
)  # fmt: skip
"""Change nothing about the text, or only what this server decides for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIParams(Params):
    """Of each prompt as many branches are written as the request says, and the best ``choices`` returned."""

    choices: int
    model: str = ""
    include_usage: bool = False
    continuous_usage: bool = False  # in every chunk
    prompt_logprobs: int | None = None  # of each choice, apart from those that echo shows
    echo: bool = False
    tools: Tools | None = None

    def of_prompt(self, prompt: Prompt, **changes: Any) -> Request:
        known = [k for k in (self.logprobs if self.echo else None, self.prompt_logprobs) if k is not None]
        changes["prompt_logprobs"] = max(known, default=None)
        if self.n > self.choices and self.logprobs is None:
            changes["logprobs"] = 0  # to tell the best
        return Params.of_prompt(self, prompt, **changes)


def read_openai(
    fields: Fields, services: Services, logprobs: int | None, stops: Sequence[str] = (),
    tools: Tools | None = None,
) -> OpenAIParams:  # fmt: skip
    """Everything but the prompt. ``stops`` end a text beside the request's own. Raises ApiError (400)."""
    params = read_params(fields, services)
    n, best_of = params.n, params.n
    if fields.has("best_of"):
        best_of = fields.integer("best_of", n)
        check_range("best_of", best_of, 1, services.max_n)
    if best_of < n:
        raise bad("best_of", f"Field 'best_of': must be at least n, which is {n}, but got {best_of}")
    if best_of > n and params.stream:
        raise bad("best_of", "Field 'best_of': the best cannot be streamed before all are written")
    before = fields.size("prompt_logprobs", 0) if fields.has("prompt_logprobs") else None
    if before is not None and params.stream:
        raise bad("prompt_logprobs", "Field 'prompt_logprobs': they are not streamed")
    request = stop_also(params.request, stops)
    if best_of != n or logprobs is not None:
        request = replace(request, n=best_of, logprobs=logprobs)
    options = Fields(fields.mapping("stream_options") or {})
    usage = params.stream and options.flag("include_usage")
    return params.more(
        OpenAIParams,
        request=request if tools is None else constrain(request, tools),
        choices=n,
        model=fields.text("model") or services.model_name,
        include_usage=usage,
        continuous_usage=usage and options.flag("continuous_usage_stats"),
        prompt_logprobs=before,
        echo=fields.flag("echo"),
        tools=tools,
    )
