"""OpenAI's dialect, with what vLLM adds: its rows, and the cards of models. Knows no other dialect."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.openai.completions import chat_completions, completions
from srbwriter.server.endpoints import Leaf, rows_of
from srbwriter.server.errors import OPENAI, ApiError
from srbwriter.server.schemas import AT_LEAST_ONE, CHAT, COUNT, FIELDS, PROMPT, SWITCHES, object_of
from srbwriter.server.services import Services, words


async def models(context: Context) -> Response:
    card = model_card(context.services)
    return json_response({"object": "list", "data": [card], "models": [_ollama(card)]})


async def model(context: Context) -> Response:
    name = context.path["model"]
    card = model_card(context.services)
    if name not in (card["id"], *card["aliases"]):
        raise ApiError(404, f"there is no model {name}; this server has {card['id']}")
    return json_response(card)


def model_card(services: Services) -> dict[str, Any]:
    """Valid while the model is still being loaded too; then without its measures."""
    engine = services.loader.engine
    card: dict[str, Any] = {
        "id": services.model_name,
        "aliases": list(services.model_names),
        "tags": list(words(services.settings.tags)),
        "object": "model",
        "created": int(services.started),
        "owned_by": "llamacpp",
        "engine_state": services.state,
        "max_n": services.max_n,
        "meta": None,
    }
    if engine is None:
        return card
    info = engine.info
    card["max_model_len"] = engine.n_ctx
    card["meta"] = {
        "vocab_type": info.metadata.get("tokenizer.ggml.model", ""),
        "n_vocab": info.n_vocab,
        "n_ctx": engine.n_ctx,
        "n_ctx_train": info.n_ctx_train,
        "n_embd": info.n_embd,
        "n_params": info.n_params,
        "size": info.size,
        "ftype": info.description,
    }
    return card


def _ollama(card: dict[str, Any]) -> dict[str, Any]:
    """llama.cpp lists its model a second time under ``models``, in another project's shape."""
    return {
        "name": card["id"],
        "model": card["id"],
        "type": "model",
        "capabilities": ["completion"],
        "details": {"format": "gguf"},
    }


_COMPLETION = object_of(
    "prompt", prompt=PROMPT, model="string", logprobs=COUNT, echo="boolean", best_of=AT_LEAST_ONE,
    suffix="string", **SWITCHES, **FIELDS,
)  # fmt: skip
_row = rows_of(OPENAI, "OpenAI")
_ROWS = (
    _row("POST /v1/completions", completions,
         "OpenAI's answer for a body with model, stream, echo, logprobs, best_of, suffix or stream_options",
         body=_COMPLETION),
    _row("POST /v1/chat/completions /chat/completions", chat_completions, "choices for a conversation",
         body=CHAT),
    _row("GET /v1/models /models", models, "the model"),
    _row("GET /v1/models/{model:path} /models/{model:path}", model, "one model by name"),
)  # fmt: skip
LEAF = Leaf(rows=_ROWS, prefixes={"/v1/": OPENAI})
