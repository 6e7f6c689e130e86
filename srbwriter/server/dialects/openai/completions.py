"""``/v1/completions`` and ``/v1/chat/completions`` in OpenAI's dialect: every sampler, and tools."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from starlette.responses import Response

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import NotSupported, Prompt, Request, TokenRun
from srbwriter.server.answers import (
    branch_tokens,
    content_logprobs,
    final_object,
    finish_reason,
    finite,
    legacy_logprobs,
    problem,
    prompt_tokens,
    timings,
    token_text,
    usage,
)
from srbwriter.server.chat import ChatPrompt, read_chat
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.openai.params import OpenAIParams, read_params
from srbwriter.server.dialects.openai.streams import ChatFrames, CompletionFrames
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.fields import Fields
from srbwriter.server.registry import Record
from srbwriter.server.tools import message_of, refused


async def completions(context: Context) -> Response:
    context.dialect = "openai"
    fields = Fields(await context.json())
    params = await context.read(lambda: read_params(fields, context, _logprobs(fields)))
    prompts = await context.services.read_prompts(fields.raw("prompt"), context.effort)
    if fields.has("truncate_prompt_tokens"):
        cut = partial(_truncated, params, fields, context)
        prompts = await context.read(lambda: list(map(cut, prompts)))
    requests = [await _request(params, prompt, fields, context) for prompt in prompts]
    record = await context.submit(requests)
    head = _head(context, fields, "cmpl", "text_completion")
    if params.stream:
        texts = await context.read(
            lambda: [_text(context, request.prompt) for request in requests] if params.echo else []
        )
        return await context.stream(record, CompletionFrames(context, record, head, params, texts))
    return await context.whole(record, lambda: _answer(context, record, head, params, requests))


def _head(context: Context, fields: Fields, prefix: str, kind: str) -> dict[str, Any]:
    """How an answer begins, and each chunk of one."""
    return {
        "id": f"{prefix}-{context.id}",
        "object": kind,
        "created": int(time.time()),
        "model": fields.text("model") or context.services.model_name,
        "system_fingerprint": context.services.fingerprint,
    }


def _logprobs(fields: Fields) -> int | None:
    value = fields.values.get("logprobs")
    if value is None or value is False:
        return None
    if value is True:
        return fields.size("top_logprobs", 1, like="logprobs")
    top = Fields({"logprobs": value})
    if top.integer("logprobs", 0) < 0:
        raise bad("logprobs", "Field 'logprobs': it cannot be less than 0")
    return top.size("logprobs", 0)


async def _request(params: OpenAIParams, prompt: Prompt, fields: Fields, context: Context) -> Request:
    suffix = fields.text("suffix")
    if not suffix:
        return await context.read(lambda: context.services.put_system_before(params.of_prompt(prompt)))
    if params.echo:
        raise bad("suffix", "Field 'suffix': cannot be combined with echo")
    try:
        return params.of_prompt(await context.services.infill(prompt, suffix), add_bos=params.add_bos)
    except NotSupported as error:  # not 501: clients would try again
        raise bad("suffix", f"Field 'suffix': {error}") from None


def _truncated(params: OpenAIParams, fields: Fields, context: Context, prompt: Prompt) -> Prompt:
    """The last so many tokens of a prompt; -1 is as many as fit."""
    most = fields.integer("truncate_prompt_tokens", -1, -1, context.engine.n_ctx, hard=True)
    if most == 0:
        raise bad("truncate_prompt_tokens", "Field 'truncate_prompt_tokens': at least one, or -1")
    keep = most if most > 0 else max(context.engine.n_ctx - (params.stop.max_tokens or 0) - 1, 1)
    if isinstance(prompt, str):
        ids = context.engine.tokenize(prompt, add_bos=params.add_bos)
        return prompt if len(ids) <= keep else ids[-keep:]
    return prompt[-keep:]


def _text(context: Context, prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    runs = [item.text for item in prompt if isinstance(item, TokenRun)]
    ids = [item for item in prompt if isinstance(item, int)]
    return "".join((*runs, *(token.text for token in prompt_tokens(context.engine, ids, ()))))


def _answer(
    context: Context, record: Record, head: dict[str, Any], params: OpenAIParams, requests: Sequence[Request]
) -> dict[str, Any]:
    def choices() -> Iterator[dict[str, Any]]:
        index = 0
        for generation, request in zip(record.generations, requests, strict=True):
            text = _text(context, request.prompt) if params.echo else ""
            for branch in _best(generation, params.n):
                yield _choice(context, generation, branch, params, index, text)
                index += 1

    first = record.generation
    return {
        **head,
        "choices": choices(),
        "usage": usage(record),
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
    context: Context, generation: Generation, branch: Branch, params: OpenAIParams, index: int, prompt: str
) -> dict[str, Any]:
    logprobs = None
    if params.logprobs is not None:
        tokens = branch_tokens(context.engine, branch)
        if params.echo:
            before = prompt_tokens(context.engine, generation.prompt_ids, generation.prompt_logprobs)
            length = sum(len(token.text) for token in before)
            tokens = [*before, *(token._replace(start=token.start + length) for token in tokens)]
        logprobs = legacy_logprobs(context.engine, tokens)
    return {
        "index": index,
        "text": prompt + branch.text,
        "logprobs": logprobs,
        "finish_reason": finish_reason(branch.finish_reason),
        "stop_reason": branch.stop_text,
        **_of_prompt(context, generation, params.prompt_logprobs),
        **problem(branch),
    }


def _of_prompt(context: Context, generation: Generation, most: int | None) -> dict[str, Any]:
    """vLLM's list: nothing for the first token, then of each what it was and what else was likely, by id."""
    if most is None:
        return {}
    listed: list[Any] = [None]
    for known in generation.prompt_logprobs:
        likely = {id: (logprob, rank) for rank, (id, logprob) in enumerate(known.top[:most], 1)}
        likely.setdefault(known.id, (known.logprob, 0))
        entry: dict[str, Any] = {}
        for id, (logprob, rank) in likely.items():
            text = token_text(context.engine, id)
            entry[str(id)] = {"logprob": finite(logprob), "rank": rank or None, "decoded_token": text}
        listed.append(entry)
    return {"prompt_logprobs": listed}


# ---- chat


_DEFAULT_TOP = 20


async def chat_completions(context: Context) -> Response:
    context.dialect = "openai"
    fields = Fields(await context.json())
    record, params = await submit_chat(context, fields)
    head = _head(context, fields, "chatcmpl", "chat.completion.chunk" if params.stream else "chat.completion")
    if params.stream:
        return await context.stream(record, ChatFrames(context, record, head, params))
    return await context.whole(record, lambda: _chat_answer(context, record, head, params))


async def submit_chat(context: Context, fields: Fields) -> tuple[Record, OpenAIParams]:
    """Have a conversation continued. Raises ApiError."""
    for name in ("truncate_prompt_tokens", "prompt_logprobs"):
        if fields.has(name):
            raise bad(name, f"Field '{name}': for /v1/completions only")
    chat = await read_chat(fields, context)
    params = await context.read(
        lambda: read_params(fields, context, _chat_logprobs(fields), chat.stops, chat.tools)
    )
    request = params.of_prompt(chat.prompt, parse_special=True, add_bos=chat.add_bos)
    try:
        return await context.submit([request]), params
    except ApiError as error:
        raise refused(error) if chat.tools is not None else error from None


async def input_tokens(context: Context) -> Response:
    chat: ChatPrompt = await read_chat(Fields(await context.json()), context)
    ids = await context.services.tokenize(chat.prompt, add_bos=chat.add_bos, parse_special=True)
    return json_response({"object": "response.input_tokens", "input_tokens": len(ids)})


def _chat_logprobs(fields: Fields) -> int | None:
    wanted = Fields({"logprobs": fields.values.get("logprobs")}).flag("logprobs")
    top = fields.size("top_logprobs", _DEFAULT_TOP, like="logprobs")
    if not wanted:
        if fields.values.get("top_logprobs"):
            raise bad("top_logprobs", "Field 'top_logprobs': needs logprobs to be true")
        return None
    return top


def _chat_answer(
    context: Context, record: Record, head: dict[str, Any], params: OpenAIParams
) -> dict[str, Any]:
    generation = record.generation
    answer = {
        **head,
        "choices": (_chat_choice(context, branch, params) for branch in generation.branches),
        "usage": usage(record),
        "timings": timings(generation, generation.branches[0]),
    }
    if params.verbose:
        answer["__verbose"] = final_object(context, record, generation.branches[0], params, 0)
    return answer


def _chat_choice(context: Context, branch: Branch, params: OpenAIParams) -> dict[str, Any]:
    message = {"role": "assistant", "content": branch.text}
    if params.tools is not None:
        message = message_of(params.tools, branch.text)
    reason = finish_reason(branch.finish_reason)
    choice: dict[str, Any] = {
        "index": branch.index,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if "tool_calls" in message and reason == "stop" else reason,
        **problem(branch),
    }
    if params.logprobs is not None:
        choice["logprobs"] = {
            "content": content_logprobs(context.engine, branch_tokens(context.engine, branch))
        }
    return choice
