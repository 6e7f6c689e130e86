"""``/v1/models``: the one loaded model, with the engine's state and the limit on branches."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from srbwriter.server.call import Call, json_response
from srbwriter.server.errors import ApiError
from srbwriter.server.services import words


async def models(call: Call) -> Response:
    card = model_card(call)
    return json_response({"object": "list", "data": [card], "models": [_ollama(card)]})


async def model(call: Call) -> Response:
    card = model_card(call)
    if call.path["model"] not in (card["id"], *card["aliases"]):
        raise ApiError(404, f"there is no model {call.path['model']}; this server has {card['id']}")
    return json_response(card)


def model_card(call: Call) -> dict[str, Any]:
    """Valid while the model is still being loaded too; then without its measures."""
    services = call.services
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
