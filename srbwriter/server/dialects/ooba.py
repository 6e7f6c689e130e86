"""text-generation-webui's routes beside OpenAI's: ``/v1/internal``. Its older interface is in ``kobold``."""

from __future__ import annotations

from starlette.responses import Response

from srbwriter.server.context import Context, json_response
from srbwriter.server.endpoints import Leaf, respond, rows_of
from srbwriter.server.errors import OPENAI
from srbwriter.server.prompts import read_ids
from srbwriter.server.schemas import object_of
from srbwriter.server.work import PER_ENTRY


async def encode_text(context: Context) -> Response:
    ids = await _tokens(context)
    return await context.answer(len(ids) * PER_ENTRY, lambda: {"tokens": ids, "length": len(ids)})


async def count_text(context: Context) -> Response:
    return json_response({"length": len(await _tokens(context))})


async def _tokens(context: Context) -> list[int]:
    text = (await context.fields()).need_text("text")
    return await context.services.tokenize(text, add_bos=True, parse_special=True)


async def decode(context: Context) -> Response:
    ids = read_ids("tokens", (await context.fields()).raw("tokens"), context.engine)
    return await context.answer(len(ids) * PER_ENTRY, lambda: {"text": context.engine.detokenize(ids)})


async def stop_generation(context: Context) -> Response:
    """Cancel this client's requests; those of other clients and of the terminal continue."""
    context.stop_own()
    return json_response("OK")


async def model_info(context: Context) -> Response:
    names = [path for path, _ in context.engine.adapters]
    name = context.services.model_name
    return json_response({"model_name": name, "lora_names": names, "loader": "llama.cpp"})


_row = rows_of(OPENAI, "text-generation-webui")
_TEXT = object_of("text", text="string", example={"text": "Once upon a time"})
_I = "/v1/internal"
_ROWS = (
    _row(f"GET {_I}/health", respond(lambda _: {"status": "ok"}, ready=True), "whether the model is ready"),
    _row(f"POST {_I}/encode", encode_text, "text as token ids", body=_TEXT),
    _row(f"POST {_I}/decode", decode, "token ids as text",
         body=object_of("tokens", tokens="array", example={"tokens": [1, 2]})),
    _row(f"POST {_I}/token-count", count_text, "how many tokens a text is", body=_TEXT),
    _row(f"POST {_I}/stop-generation", stop_generation, "stop what this client asked for"),
    _row(f"GET {_I}/model/info", model_info, "the loaded model"),
)  # fmt: skip
LEAF = Leaf(rows=_ROWS)
