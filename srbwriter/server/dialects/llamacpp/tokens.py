"""``/tokenize``, ``/detokenize`` and ``/apply-template``, also in the words of other servers' clients."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from srbwriter.server.body import Body
from srbwriter.server.call import Call, json_response
from srbwriter.server.chat import read_chat
from srbwriter.server.errors import bad
from srbwriter.server.prompt import read_prompts
from srbwriter.server.services import off_loop


async def tokenize(call: Call) -> Response:
    """``{content}`` is llama.cpp's question, ``{prompt}`` vLLM's; one answer serves both."""
    body = Body(await call.json())
    theirs = "content" not in body.values and "prompt" in body.values
    text = body.text("prompt" if theirs else "content")
    special = body.flag("add_special", body.flag("add_bos", theirs))
    ids = await call.services.tokenize(text, add_bos=special, parse_special=body.flag("parse_special", True))
    tokens: list[Any] = list(ids)
    if body.flag("with_pieces"):
        tokens = [{"id": id, "piece": _piece(call, id)} for id in ids]
    return json_response({"tokens": tokens, "count": len(ids), "max_model_len": call.engine.n_ctx})


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
    ids = read_prompts(value, call.engine)[0] if value else ()
    wanted = [id for id in ids if isinstance(id, int)]
    return json_response({"content": await off_loop(len(wanted), lambda: call.engine.detokenize(wanted))})


async def apply_template(call: Call) -> Response:
    chat = read_chat(Body(await call.json()), call)
    return json_response({"prompt": chat.prompt})
