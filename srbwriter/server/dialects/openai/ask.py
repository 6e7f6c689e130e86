"""What an OpenAI request asks for, as the engine's Request; the same for completions and chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from srbwriter.engine.types import Prompt, Request, Sampling, Stop
from srbwriter.server.body import Body
from srbwriter.server.call import Call
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.params import (
    Options,
    branch_samplings,
    read_n,
    read_options,
    read_sampling,
    read_stop,
    schema_text,
)
from srbwriter.server.prompt import wants_bos

from .vllm import refuse_unsupported


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of n choices a prompt; ``branches`` of each are written and the best ``n`` returned."""

    n: int
    branches: int
    sampling: Sampling
    stop: Stop
    logprobs: int | None
    stream: bool
    include_usage: bool
    echo: bool
    add_bos: bool
    options: Options

    def request(
        self, prompt: Prompt, call: Call, *, parse_special: bool = False, add_bos: bool | None = None
    ) -> Request:
        logprobs = self.logprobs
        if self.branches > self.n and logprobs is None:
            logprobs = 0  # to tell the best
        return Request(
            prompt=prompt,
            n=self.branches,
            sampling=branch_samplings(self.sampling, self.branches),
            stop=self.stop,
            logprobs=logprobs,
            prompt_logprobs=self.logprobs if self.echo else None,
            add_bos=self.add_bos and wants_bos(prompt) if add_bos is None else add_bos,
            parse_special=parse_special,
            **self.options,
            label=call.id,
        )


def read_ask(body: Body, call: Call, logprobs: int | None, stops: Sequence[str] = ()) -> Ask:
    """Everything but the prompt. ``stops`` end a text beside the request's own. Raises ApiError (400)."""
    refuse_unsupported(body)
    engine, limit = call.engine, call.services.max_n
    n = read_n(body, 1, limit)
    best_of = body.integer("best_of", n, 1, limit, hard=True)
    stream = body.flag("stream")
    if best_of < n:
        raise bad("best_of", f"Field 'best_of': must be at least n, which is {n}, but got {best_of}")
    if best_of > n and stream:
        raise bad("best_of", "Field 'best_of': the best cannot be streamed before all are written")
    sampling = read_sampling(body, call.settings.sampling, engine)
    if schema := _response_format(body):
        sampling = replace(sampling, json_schema=schema)
    if choices := body.texts("guided_choice"):
        sampling = replace(sampling, regex=_any_of(choices))
    base = call.settings.n_predict
    stop = read_stop(body, Stop(max_tokens=base if base >= 0 else None))
    if stops:
        stop = replace(stop, strings=(*stop.strings, *stops))
    options = body.mapping("stream_options") or {}
    return Ask(
        n,
        best_of,
        sampling,
        stop,
        logprobs,
        stream,
        stream and Body(options).flag("include_usage"),
        body.flag("echo"),
        body.flag("add_bos", True),
        read_options(body, call.settings.context_shift, call.engine),
    )


def _response_format(body: Body) -> str | None:
    """``response_format`` as a JSON schema, or None for plain text."""
    wanted = body.mapping("response_format")
    if wanted is None:
        return None
    kind = wanted.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return schema_text("response_format", wanted.get("schema") or {"type": "object"})
    if kind == "json_schema" and isinstance(wanted.get("json_schema"), dict):
        return schema_text(
            "response_format", cast("dict[str, Any]", wanted["json_schema"]).get("schema") or {}
        )
    raise ApiError(
        400,
        "Field 'response_format': type must be text, json_object or json_schema, the last with a schema",
        field="response_format",
    )


def _any_of(choices: Sequence[str]) -> str:
    """A regular expression for one of ``choices``; every character that could mean something is escaped."""
    return "|".join(
        "".join(c if c.isalnum() or c.isspace() else "\\" + c for c in choice) for choice in choices
    )
