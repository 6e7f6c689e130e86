"""text-generation-webui's routes beside OpenAI's: ``/v1/internal``. Its older interface is in ``kobold``."""

from __future__ import annotations

import math
from functools import partial

from starlette.responses import Response

from srbwriter.engine.types import Request, Sampling, Stop
from srbwriter.server.chat import TEMPLATE_SECONDS, read_chat
from srbwriter.server.context import Context, json_response
from srbwriter.server.endpoints import Leaf, respond, rows_of
from srbwriter.server.errors import OPENAI, ApiError, bad
from srbwriter.server.prompts import read_ids
from srbwriter.server.reply import token_text
from srbwriter.server.schemas import CHAT, object_of
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


async def logits(context: Context) -> Response:
    """How likely the next token is each of the likeliest, by the model alone."""
    fields = await context.fields()
    if fields.flag("use_samplers"):
        raise bad("use_samplers", "Field 'use_samplers': these are the model's own probabilities")
    top = fields.size("top_logits", 50, 1, like="logprobs")
    stop = Stop(max_tokens=1, ignore_eog=True)
    prompt = fields.need_text("prompt")
    request = Request(prompt, logprobs=top, stop=stop, sampling=Sampling(seed=0), parse_special=True)
    record = await context.submit([context.services.put_system_before(request)])

    def make() -> dict[str, dict[str, float]]:
        known = record.generation.branches[0].logprobs
        likeliest = known[0].top if known else ()
        return {"logits": {token_text(context.engine, id): math.exp(logprob) for id, logprob in likeliest}}

    return await context.whole(record, make)


async def chat_prompt(context: Context) -> Response:
    chat = await context.read(partial(read_chat, system=False), TEMPLATE_SECONDS)
    return json_response({"prompt": chat.prompt})


async def stop_generation(context: Context) -> Response:
    """Cancel this client's requests; those of other clients and of the terminal continue."""
    context.stop_own()
    return json_response("OK")


async def model_info(context: Context) -> Response:
    names = [path for path, _ in context.engine.adapters]
    name = context.services.model_name
    return json_response({"model_name": name, "lora_names": names, "loader": "llama.cpp"})


async def model_load(context: Context) -> Response:
    """The model is loaded already; there is no other."""
    name = (await context.fields()).need_text("model_name")
    if name not in context.services.model_names:
        known = ", ".join(context.services.model_names)
        raise bad(
            "model_name", f"Field 'model_name': there is no model {name[:200]}; this server has {known}"
        )
    return json_response("OK")


async def model_unload(context: Context) -> Response:
    name = context.services.model_name
    raise ApiError(501, f"this server keeps its model, {name}; end the server instead")


_row = rows_of(OPENAI, "text-generation-webui")
_TEXT = object_of("text", text="string", example={"text": "Once upon a time"})
_I = "/v1/internal"
_ROWS = (
    _row(f"GET {_I}/health", respond(lambda _: {"status": "ok"}, ready=True), "whether the model is ready"),
    _row(f"POST {_I}/encode", encode_text, "text as token ids", body=_TEXT),
    _row(f"POST {_I}/decode", decode, "token ids as text",
         body=object_of("tokens", tokens="array", example={"tokens": [1, 2]})),
    _row(f"POST {_I}/token-count", count_text, "how many tokens a text is", body=_TEXT),
    _row(f"POST {_I}/logits", logits, "the likeliest next tokens",
         body=object_of("prompt", prompt="string", top_logits="integer",
                        example={"prompt": "Once upon a", "top_logits": 5})),
    _row(f"POST {_I}/chat-prompt", chat_prompt, "a conversation as one prompt", body=CHAT),
    _row(f"POST {_I}/stop-generation", stop_generation, "stop what this client asked for"),
    _row(f"GET {_I}/model/info", model_info, "the loaded model"),
    _row(f"GET {_I}/model/list", respond(lambda context: {"model_names": [*context.services.model_names]}),
         "the names it goes by"),
    _row(f"POST {_I}/model/load", model_load, "nothing to do for the model that is loaded",
         body=object_of("model_name", model_name="string")),
    _row(f"POST {_I}/model/unload", model_unload, "not possible here"),
)  # fmt: skip
LEAF = Leaf(rows=_ROWS)
