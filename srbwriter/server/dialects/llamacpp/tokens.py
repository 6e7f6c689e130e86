"""``/tokenize``, ``/detokenize`` and ``/apply-template``, also in the words of other servers' clients."""

from __future__ import annotations

from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.limits import check_prompt
from srbwriter.server.body import Body, is_integer
from srbwriter.server.call import Call, json_response
from srbwriter.server.chat import read_chat
from srbwriter.server.errors import bad
from srbwriter.server.work import PER_ENTRY


async def tokenize(call: Call) -> Response:
    """``{content}`` is llama.cpp's question, ``{prompt}`` vLLM's; one answer serves both."""
    body = Body(await call.json())
    theirs = "content" not in body.values and "prompt" in body.values
    text = body.text("prompt" if theirs else "content")
    special = body.flag("add_special", body.flag("add_bos", theirs))
    pieces = body.flag("with_pieces")
    ids = await call.services.tokenize(text, add_bos=special, parse_special=body.flag("parse_special", True))

    def make() -> dict[str, Any]:
        tokens: list[Any] = [{"id": id, "piece": _piece(call, id)} for id in ids] if pieces else list(ids)
        return {"tokens": tokens, "count": len(ids), "max_model_len": call.engine.n_ctx}

    return await call.answer(len(ids) * PER_ENTRY, make)


def _piece(call: Call, id: int) -> str | list[int]:
    raw = call.engine.token_bytes(id)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)


async def detokenize(call: Call) -> Response:
    body = Body(await call.json())
    value = body.raw("tokens")
    if not isinstance(value, list):
        raise bad("tokens", "Field 'tokens': expected a list of token ids")
    ids = cast("list[Any]", value)
    check_prompt("tokens", 0, len(ids))
    return await call.answer(len(ids) * PER_ENTRY, lambda: {"content": _text(call, ids)})


def _text(call: Call, ids: list[Any]) -> str:
    most = call.engine.info.n_vocab
    for id in ids:
        if not is_integer(id) or not 0 <= id < most:
            raise bad("tokens", f"Field 'tokens': {str(id)[:40]} is no token id of the vocabulary")
    return call.engine.detokenize(ids)


async def apply_template(call: Call) -> Response:
    chat = await read_chat(Body(await call.json()), call)
    return json_response({"prompt": chat.prompt})
