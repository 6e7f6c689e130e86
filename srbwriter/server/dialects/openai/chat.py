"""``/v1/chat/completions`` in OpenAI's dialect, with every sampler of the completions, and tools."""

from __future__ import annotations

import time
from typing import Any

from starlette.responses import Response

from srbwriter.engine.generation import Branch
from srbwriter.server.answers import (
    final_object,
    finish_reason,
    problem,
    prompt_text,
    seconds,
    timings,
    usage,
)
from srbwriter.server.body import Body
from srbwriter.server.call import Call, json_response
from srbwriter.server.chat import ChatPrompt, read_chat
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.follow import Follower
from srbwriter.server.registry import Record
from srbwriter.server.stream import frames
from srbwriter.server.tokens import branch_tokens
from srbwriter.server.tools import message_of, refused

from .ask import OpenAIAsk, read_ask
from .shape import content_logprobs
from .streams import ChatFrames

_DEFAULT_TOP = 20


async def chat_completions(call: Call) -> Response:
    call.dialect = "openai"
    body = Body(await call.json())
    record, ask = await submit_chat(call, body)
    head = {
        "id": f"chatcmpl-{call.id}",
        "object": "chat.completion.chunk" if ask.stream else "chat.completion",
        "created": int(time.time()),
        "model": body.text("model") or call.services.model_name,
        "system_fingerprint": call.services.fingerprint,
    }
    if ask.stream:
        return await call.stream(record, frames(call, record, ChatFrames(call, record, head, ask)))
    return await call.collect(record, _whole(call, record, head, ask))


async def submit_chat(call: Call, body: Body) -> tuple[Record, OpenAIAsk]:
    """Have a conversation continued. Raises ApiError."""
    chat = await read_chat(body, call)
    ask = await call.read(lambda: read_ask(body, call, _logprobs(body), chat.stops, chat.tools))
    request = ask.of_prompt(chat.prompt, parse_special=True, add_bos=chat.add_bos)
    try:
        return await call.submit([request]), ask
    except ApiError as error:
        raise refused(error) if chat.tools is not None else error from None


async def input_tokens(call: Call) -> Response:
    chat: ChatPrompt = await read_chat(Body(await call.json()), call)
    ids = await call.services.tokenize(chat.prompt, add_bos=chat.add_bos, parse_special=True)
    return json_response({"object": "response.input_tokens", "input_tokens": len(ids)})


def _logprobs(body: Body) -> int | None:
    wanted = Body({"logprobs": body.values.get("logprobs")}).flag("logprobs")
    top = Body({"logprobs": body.values.get("top_logprobs")}).size("logprobs", _DEFAULT_TOP)
    if not wanted:
        if body.values.get("top_logprobs"):
            raise bad("top_logprobs", "Field 'top_logprobs': needs logprobs to be true")
        return None
    return top


async def _whole(call: Call, record: Record, head: dict[str, Any], ask: OpenAIAsk) -> Response:
    with Follower(call.services.bridge, record.generations) as follower:
        await follower.finish()
    return await call.answer(seconds(record), lambda: _answer(call, record, head, ask), record)


def _answer(call: Call, record: Record, head: dict[str, Any], ask: OpenAIAsk) -> dict[str, Any]:
    generation = record.generation
    answer = {
        **head,
        "choices": (_choice(call, branch, ask) for branch in generation.branches),
        "usage": usage(record.generations),
        "timings": timings(generation, generation.branches[0]),
    }
    if ask.verbose:
        answer["__verbose"] = verbose(call, record, ask, 0)
    return answer


def verbose(call: Call, record: Record, ask: OpenAIAsk, index: int, stream: bool = False) -> dict[str, Any]:
    """llama.cpp's whole account of a choice."""
    generation, engine = record.generation, call.engine
    return final_object(
        engine, generation, generation.branches[index], ask, index=index, slot=record.slot(index),
        model=call.services.model_name, prompt=prompt_text(engine, generation), stream=stream,
    )  # fmt: skip


def _choice(call: Call, branch: Branch, ask: OpenAIAsk) -> dict[str, Any]:
    message = {"role": "assistant", "content": branch.text}
    if ask.tools is not None:
        message = message_of(ask.tools, branch.text)
    reason = finish_reason(branch.finish_reason)
    choice: dict[str, Any] = {
        "index": branch.index,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if "tool_calls" in message and reason == "stop" else reason,
        **problem(branch),
    }
    if ask.logprobs is not None:
        choice["logprobs"] = {"content": content_logprobs(call.engine, branch_tokens(call.engine, branch))}
    return choice
