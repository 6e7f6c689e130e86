"""text-generation-webui's routes beside OpenAI's: ``/v1/internal``."""

from __future__ import annotations

from typing import Any

from ..errors import openai_error
from ..http import Call, Dialect, Row
from ..prompts import read_ids


async def _ids(call: Call) -> list[int]:
    return await call.tokenize(call.body.need_text("text"), add_bos=True, parse_special=True)


async def encode_text(call: Call) -> dict[str, Any]:
    ids = await _ids(call)
    return {"tokens": ids, "length": len(ids)}


async def count_text(call: Call) -> dict[str, Any]:
    return {"length": len(await _ids(call))}


async def decode(call: Call) -> dict[str, Any]:
    ids = call.body.raw("tokens")
    return {"text": await call.work(lambda: call.engine.detokenize(read_ids("tokens", ids, call.engine)))}


def stop_generation(call: Call) -> str:
    """Cancel this client's requests; those of other clients and of the terminal continue."""
    call.stop_own()
    return "OK"


def model_info(call: Call) -> dict[str, Any]:
    names = [path for path, _ in call.engine.adapters]
    return {"model_name": call.services.model_name, "lora_names": names, "loader": "llama.cpp"}


def health(call: Call) -> dict[str, str]:
    _ = call.engine
    return {"status": "ok"}


_I = "/v1/internal"
DIALECT = Dialect(
    "text-generation-webui",
    (
        Row(f"GET {_I}/health", health, "whether the model is ready"),
        Row(f"POST {_I}/encode", encode_text, "text as token ids", "text!"),
        Row(f"POST {_I}/decode", decode, "token ids as text", "tokens!:ids"),
        Row(f"POST {_I}/token-count", count_text, "how many tokens a text is", "text!"),
        Row(f"POST {_I}/stop-generation", stop_generation, "stop what this client asked for"),
        Row(f"GET {_I}/model/info", model_info, "the loaded model"),
    ),
    openai_error,
)  # fmt: skip
