"""Vectors of texts, in OpenAI's form and in llama.cpp's."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, cast

from starlette.responses import Response

from ..errors import ApiError, bad, missing
from ..http import Call, json_response
from ..prompts import is_integer, refuse_media

if TYPE_CHECKING:
    from srbwriter.engine.embedding import Embedding  # loads llama.cpp

EMBEDDINGS = "embd_normalize:integer pooling"
"""Fields of both forms."""


async def openai_embeddings(call: Call) -> Response:
    """``input`` in OpenAI's form; ``content``, which OpenAI does not know, in llama.cpp's."""
    body = call.body
    _ = call.engine.embedder  # 501 before anything else, where it has none
    if not body.has("input") and body.has("content"):
        return await native_embeddings(call)
    style, width = body.text("encoding_format", "float"), call.engine.info.n_embd
    if style not in ("float", "base64"):
        raise bad("encoding_format", "expected float or base64")
    if body.integer("dimensions", width) != width:
        raise bad("dimensions", f"this model's vectors have {width}, and are not cut")
    vectors = await _embed(call, "input")
    tokens = sum(one.tokens for one in vectors)

    def written(one: Embedding) -> Any:
        if style == "base64":
            return base64.b64encode(one.values.astype("<f4").tobytes()).decode()
        return one.values.tolist()

    return await _answer(call, lambda: {
        "object": "list",
        "model": body.text("model") or call.services.model_name,
        "data": [
            {"object": "embedding", "index": index, "embedding": written(one)}
            for index, one in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })  # fmt: skip


async def native_embeddings(call: Call) -> Response:
    """Answer with a list of vectors for each text, even where it is a single one."""
    _ = call.engine.embedder
    vectors = await _embed(
        call, "input" if call.body.has("input") and not call.body.has("content") else "content"
    )
    return await _answer(call, lambda: [
        {"index": index, "embedding": [one.values.tolist()]} for index, one in enumerate(vectors)
    ])  # fmt: skip


async def _answer(call: Call, make: Any) -> Response:
    return await call.work(lambda: json_response(make()), thread=True)


async def _embed(call: Call, field: str) -> list[Embedding]:
    """Return vectors of the texts in ``field``. Raises ApiError."""
    body, lane = call.body, call.engine.embedder
    refuse_media(body.values)
    texts = _texts(field, body.raw(field))
    normalize = max(-1, min(body.integer("embd_normalize", 2), 100))
    pooling = cast("Any", body.text("pooling") or None)  # the engine refuses any other word
    work = await call.work(lambda: lane.embed(texts, pooling, normalize))
    return await call.until_gone(asyncio.wrap_future(work))


def _texts(field: str, value: Any) -> list[str | list[int]]:
    """Return one text, one list of token ids, or several of either, as the engine takes them; it checks them.

    Raises ApiError.
    """
    if value is None:
        raise missing(field)
    items = cast("list[Any]", value if isinstance(value, list) else [value])
    if any(isinstance(item, dict) for item in items):  # parts of a message, or pictures
        raise ApiError(501, "this model reads text only; no images or other media")
    return [items] if items and all(map(is_integer, items)) else items
