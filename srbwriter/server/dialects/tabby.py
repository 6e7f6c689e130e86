"""tabbyAPI's routes beside completions: models, tokens, permissions.

Its completions are OpenAI's (``/v1/completions``), with the samplers of the engine's table.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from srbwriter.server.chat import TEMPLATE_SECONDS, read_chat
from srbwriter.server.context import Context, json_response
from srbwriter.server.endpoints import Leaf, respond, rows_of
from srbwriter.server.errors import OPENAI, bad
from srbwriter.server.prompts import read_ids
from srbwriter.server.schemas import MESSAGES, object_of
from srbwriter.server.services import Services
from srbwriter.server.streams import EVENTS
from srbwriter.server.work import PER_ENTRY, encode
from srbwriter.version import __version__


async def load_model(context: Context) -> Response:
    """Load a model and make it the current one; answers with a stream, once it is loaded."""
    fields = await context.fields()
    context.need_admin("loading a model")
    name = fields.text("model_name") or fields.text("name")
    if not name:
        raise bad("model_name", "Field 'model_name': expected the name of a model")
    await context.load_model(name)
    progress = {"model_type": "model", "module": 1, "modules": 1, "status": "finished"}
    return Response(b"data: " + encode(progress) + b"\n\n", 200, None, EVENTS)


async def unload_model(context: Context) -> Response:
    await context.unload_model()
    return json_response(None)


def _models(context: Context) -> dict[str, Any]:
    return {"object": "list", "data": [_card(one) for one in context.services.models]}


def _card(services: Services) -> dict[str, Any]:
    engine = services.loader.engine
    parameters: dict[str, Any] | None = None
    if engine is not None:
        parameters = {
            "max_seq_len": engine.n_ctx,
            "cache_size": engine.stats().total_cells,
            "max_batch_size": services.max_n,
            "prompt_template": "chat",
            "prompt_template_content": services.template,
            "use_vision": False,
        }
    return {
        "id": services.model_name,
        "object": "model",
        "created": int(services.started),
        "owned_by": "tabbyAPI",
        "parameters": parameters,
    }


async def encode_text(context: Context) -> Response:
    """``text`` is tabbyAPI's question, ``prompt`` aphrodite's; or ``messages``."""
    fields = await context.fields()
    if fields.has("messages"):
        chat = await context.read(read_chat, TEMPLATE_SECONDS)
        ids = await context.services.tokenize(chat.prompt, add_bos=chat.add_bos, parse_special=True)
    else:
        text = fields.need_text("prompt" if fields.has("prompt") and not fields.has("text") else "text")
        special = fields.flag("encode_special_tokens", True)
        add_bos = fields.flag("add_bos", True)
        ids = await context.services.tokenize(text, add_bos=add_bos, parse_special=special)
    return await context.answer(len(ids) * PER_ENTRY, lambda: {"tokens": ids, "length": len(ids)})


async def decode_tokens(context: Context) -> Response:
    ids = read_ids("tokens", (await context.fields()).raw("tokens"), context.engine)
    return await context.answer(len(ids) * PER_ENTRY, lambda: {"text": context.engine.detokenize(ids)})


def _interfaces(context: Context) -> dict[str, Any]:
    """Which there are, for programs that ask before they know."""
    base = str(context.request.base_url).rstrip("/")
    docs = f"{base}/docs"
    paths = {"openai": ("OpenAI", "/v1"), "koboldai": ("KoboldAI", "/api"), "llamacpp": ("llama.cpp", "")}
    return {
        "version": 0.1,
        "software": {"name": "srbwriter", "version": __version__},
        "api": {
            key: {"name": name, "base_url": base + path, "documentation": docs}
            for key, (name, path) in paths.items()
        },
    }


_ENCODE = object_of(
    text="string", prompt="string", add_bos_token="boolean", encode_special_tokens="boolean",
    messages=MESSAGES, example={"text": "Once upon a time"},
)  # fmt: skip

_row = rows_of(OPENAI, "tabbyAPI")
_ROWS = (
    _row("GET /v1/model", respond(lambda context: _card(context.services), ready=True), "the model in use"),
    _row("POST /v1/model/load", load_model, "load a model, which is the current one then",
         body=object_of(model_name="string"), chooses=False),
    _row("POST /v1/model/unload", unload_model, "unload the current model", chooses=False),
    _row("GET /v1/model/list", respond(_models), "models, in tabbyAPI's form"),
    _row("POST /v1/token/encode", encode_text, "a text or conversation as token ids", body=_ENCODE),
    _row("POST /v1/token/decode", decode_tokens, "token ids as text",
         body=object_of("tokens", tokens="array", example={"tokens": [1, 2]})),
    _row("GET /v1/auth/permission",
         respond(lambda context: {"permission": "admin" if context.client.admin else "api"}),
         "whether the key is an admin's"),
    _row("GET /.well-known/serviceinfo", respond(_interfaces), "which interfaces there are"),
)  # fmt: skip
LEAF = Leaf(rows=_ROWS)
