"""``/v1/completions`` in OpenAI's dialect."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from starlette.responses import Response

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import NotSupported, Prompt, Request
from srbwriter.server.answers import finish_reason, problem, seconds, timings, usage
from srbwriter.server.body import Body
from srbwriter.server.call import Call
from srbwriter.server.errors import bad
from srbwriter.server.follow import Follower
from srbwriter.server.registry import Record
from srbwriter.server.stream import frames
from srbwriter.server.tokens import branch_tokens, prompt_tokens

from .ask import OpenAIAsk, read_ask
from .shape import legacy_logprobs
from .streams import CompletionFrames


async def completions(call: Call) -> Response:
    call.dialect = "openai"
    body = Body(await call.json())
    ask = await call.read(lambda: read_ask(body, call, _logprobs(body)))
    prompts = await call.services.read_prompts(body.raw("prompt"), call.effort)
    requests = [await _request(ask, prompt, body, call) for prompt in prompts]
    record = await call.submit(requests)
    head = {
        "id": f"cmpl-{call.id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": body.text("model") or call.services.model_name,
        "system_fingerprint": call.services.fingerprint,
    }
    if ask.stream:
        texts = await call.read(lambda: [_text(call, prompt) for prompt in prompts] if ask.echo else [])
        writer = CompletionFrames(call, record, head, ask, texts)
        return await call.stream(record, frames(call, record, writer))
    return await call.collect(record, _whole(call, record, head, ask, prompts))


def _logprobs(body: Body) -> int | None:
    value = body.values.get("logprobs")
    if value is None or value is False:
        return None
    if value is True:
        return Body({"logprobs": body.values.get("top_logprobs")}).size("logprobs", 1)
    top = Body({"logprobs": value})
    if top.integer("logprobs", 0) < 0:
        raise bad("logprobs", "Field 'logprobs': it cannot be less than 0")
    return top.size("logprobs", 0)


async def _request(ask: OpenAIAsk, prompt: Prompt, body: Body, call: Call) -> Request:
    suffix = body.text("suffix")
    if not suffix:
        return ask.of_prompt(prompt)
    if ask.echo:
        raise bad("suffix", "Field 'suffix': cannot be combined with echo")
    try:
        return ask.of_prompt(await call.services.infill(prompt, suffix), add_bos=ask.add_bos)
    except NotSupported as error:  # not 501: clients would try again
        raise bad("suffix", f"Field 'suffix': {error}") from None


def _text(call: Call, prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    return "".join(
        token.text for token in prompt_tokens(call.engine, [t for t in prompt if isinstance(t, int)], ())
    )


async def _whole(
    call: Call, record: Record, head: dict[str, Any], ask: OpenAIAsk, prompts: Sequence[Prompt]
) -> Response:
    with Follower(call.services.bridge, record.generations) as follower:
        await follower.finish()
    return await call.answer(seconds(record), lambda: _answer(call, record, head, ask, prompts), record)


def _answer(
    call: Call, record: Record, head: dict[str, Any], ask: OpenAIAsk, prompts: Sequence[Prompt]
) -> dict[str, Any]:
    def choices() -> Iterator[dict[str, Any]]:
        index = 0
        for generation, prompt in zip(record.generations, prompts, strict=True):
            text = _text(call, prompt) if ask.echo else ""
            for branch in _best(generation, ask.n):
                yield _choice(call, generation, branch, ask, index, text)
                index += 1

    first = record.generation
    return {
        **head,
        "choices": choices(),
        "usage": usage(record.generations),
        "timings": timings(first, first.branches[0]),
    }


def _best(generation: Generation, n: int) -> list[Branch]:
    """The n branches of the highest mean token logprob, best first; all in order when n are there."""
    if len(generation.branches) <= n:
        return generation.branches
    return sorted(generation.branches, key=_mean_logprob, reverse=True)[:n]


def _mean_logprob(branch: Branch) -> float:
    known = branch.logprobs
    return sum(entry.logprob for entry in known) / len(known) if known else -math.inf


def _choice(
    call: Call, generation: Generation, branch: Branch, ask: OpenAIAsk, index: int, prompt: str
) -> dict[str, Any]:
    logprobs = None
    if ask.logprobs is not None:
        tokens = branch_tokens(call.engine, branch)
        if ask.echo:
            before = prompt_tokens(call.engine, generation.prompt_ids, generation.prompt_logprobs)
            length = sum(len(token.text) for token in before)
            tokens = [*before, *(token._replace(start=token.start + length) for token in tokens)]
        logprobs = legacy_logprobs(call.engine, tokens)
    return {
        "index": index,
        "text": prompt + branch.text,
        "logprobs": logprobs,
        "finish_reason": finish_reason(branch.finish_reason),
        "stop_reason": branch.stop_text,
        **problem(branch),
    }
