"""What an OpenAI request asks for, as the engine's Request; the same for completions and chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from srbwriter.engine.types import Prompt, Request, Sampling
from srbwriter.server.context import Context
from srbwriter.server.errors import bad
from srbwriter.server.fields import Fields, wants_bos
from srbwriter.server.params import Params, read_common
from srbwriter.server.tools import Tools

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
    """A request of n choices a prompt; ``branches`` of each are written and the best ``n`` returned."""

    branches: int
    include_usage: bool = False
    continuous_usage: bool = False  # in every chunk
    prompt_logprobs: int | None = None  # of each choice, apart from those that echo shows
    echo: bool = False
    add_bos: bool = True
    tools: Tools | None = None

    def of_prompt(
        self, prompt: Prompt, *, parse_special: bool = False, add_bos: bool | None = None
    ) -> Request:
        known = [k for k in (self.logprobs if self.echo else None, self.prompt_logprobs) if k is not None]
        best = 0 if self.branches > self.n and self.logprobs is None else None  # to tell the best
        return self.request(
            prompt,
            self.branches,
            parse_special=parse_special,
            add_bos=self.add_bos and wants_bos(prompt) if add_bos is None else add_bos,
            logprobs=best,
            prompt_logprobs=max(known, default=None),
        )


def read_params(
    fields: Fields,
    context: Context,
    logprobs: int | None,
    stops: Sequence[str] = (),
    tools: Tools | None = None,
) -> OpenAIParams:
    """Everything but the prompt. ``stops`` end a text beside the request's own. Raises ApiError (400)."""
    common = read_common(fields, context)
    n, stream = common["n"], common["stream"]
    best_of = fields.integer("best_of", n, 1, context.services.max_n, hard=True)
    if best_of < n:
        raise bad("best_of", f"Field 'best_of': must be at least n, which is {n}, but got {best_of}")
    if best_of > n and stream:
        raise bad("best_of", "Field 'best_of': the best cannot be streamed before all are written")
    if tools is not None:
        common["sampling"] = _calling(common["sampling"], tools)
    if stops:
        common["stop"] = replace(common["stop"], strings=(*common["stop"].strings, *stops))
    options = Fields(fields.mapping("stream_options") or {})
    before = fields.size("prompt_logprobs", 0) if fields.has("prompt_logprobs") else None
    if before is not None and stream:
        raise bad("prompt_logprobs", "Field 'prompt_logprobs': they are not streamed")
    return OpenAIParams(
        **common,
        branches=best_of,
        logprobs=logprobs,
        include_usage=stream and options.flag("include_usage"),
        continuous_usage=stream and options.flag("include_usage") and options.flag("continuous_usage_stats"),
        prompt_logprobs=before,
        echo=fields.flag("echo"),
        add_bos=fields.flag("add_bos", True),
        tools=tools,
    )


def _calling(sampling: Sampling, tools: Tools) -> Sampling:
    """With the grammar of the tools. Raises ApiError (400) where another constraint is given."""
    for name in ("grammar", "json_schema", "regex"):
        if getattr(sampling, name):
            raise bad("tools", f"Field 'tools': they constrain the answer, and so does {name}; only one can")
    return replace(sampling, grammar=tools.grammar)
