"""``/v1/chat/completions`` in OpenAI's dialect, with every sampler of the completions."""

from __future__ import annotations

import time
from typing import Any

from starlette.responses import Response

from srbwriter.engine.generation import Branch
from srbwriter.server.body import Body
from srbwriter.server.call import Call, json_response
from srbwriter.server.chat import ChatPrompt, read_chat
from srbwriter.server.errors import bad
from srbwriter.server.follow import Follower
from srbwriter.server.registry import Record
from srbwriter.server.stream import frames
from srbwriter.server.tokens import branch_tokens

from .ask import Ask, read_ask
from .shape import content_logprobs, finish_reason, problem, usage
from .streams import ChatFrames

_DEFAULT_TOP = 20


async def chat_completions(call: Call) -> Response:
    body = Body(await call.json())
    chat = read_chat(body, call)
    ask = read_ask(body, call, _logprobs(body), chat.stops)
    request = ask.request(chat.prompt, call, parse_special=True, add_bos=chat.add_bos)
    record = await call.services.submit([request], "openai", call.id)
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


async def input_tokens(call: Call) -> Response:
    chat: ChatPrompt = read_chat(Body(await call.json()), call)
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


async def _whole(call: Call, record: Record, head: dict[str, Any], ask: Ask) -> Response:
    with Follower(call.services.bridge, record.generations) as follower:
        await follower.finish()
    choices = [_choice(call, branch, ask) for branch in record.generation.branches]
    return json_response({**head, "choices": choices, "usage": usage(record.generations)})


def _choice(call: Call, branch: Branch, ask: Ask) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": branch.index,
        "message": {"role": "assistant", "content": branch.text},
        "logprobs": None,
        "finish_reason": finish_reason(branch.finish_reason),
        **problem(branch),
    }
    if ask.logprobs is not None:
        choice["logprobs"] = {"content": content_logprobs(call.engine, branch_tokens(call.engine, branch))}
    return choice
