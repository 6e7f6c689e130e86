"""Vectors of texts and ranks of texts, in every form that clients ask for them.

They are computed in a lane of the engine's own; a client that leaves ends its work.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from starlette.responses import Response

from srbwriter.engine import limits
from srbwriter.engine.embedding import Embedder, Embedding, Pooling, Score
from srbwriter.server.context import Context, json_response
from srbwriter.server.fields import Fields, is_integer, refuse_media

from .errors import ApiError, bad, missing
from .work import PER_BYTE, PER_ENTRY, off_loop

_FORMATS = ("float", "base64")


async def openai_embeddings(context: Context) -> Response:
    """``input`` in OpenAI's form; ``content``, which OpenAI does not know, in llama.cpp's."""
    fields = Fields(await context.json())
    lane = _lane(context)
    refuse_media(fields)
    if not fields.has("input") and fields.has("content"):
        return await _native(context, lane, fields)
    style = fields.text("encoding_format", "float")
    if style not in _FORMATS:
        raise bad("encoding_format", "Field 'encoding_format': expected float or base64")
    if _pooling(fields) == "none":
        raise bad("pooling", "Field 'pooling': none gives a vector for each token; ask /embeddings for those")
    _check_dimensions(fields, context)
    found = await _embed(context, lane, fields, "input")
    tokens = sum(one.tokens for one in found)
    return await context.answer(
        _effort(found),
        lambda: {
            "object": "list",
            "model": fields.text("model") or context.services.model_name,
            "data": [
                {"object": "embedding", "index": index, "embedding": _written(one, style)}
                for index, one in enumerate(found)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        },
    )


async def native_embeddings(context: Context) -> Response:
    return await _native(context, _lane(context), Fields(await context.json()))


async def _native(context: Context, lane: Embedder, fields: Fields) -> Response:
    """A list of vectors for each text, even where it is a single one."""
    refuse_media(fields)
    found = await _embed(
        context, lane, fields, "input" if fields.has("input") and not fields.has("content") else "content"
    )
    return await context.answer(
        _effort(found),
        lambda: [
            {"index": index, "embedding": np.atleast_2d(one.values).tolist()}
            for index, one in enumerate(found)
        ],
    )


async def rerank(context: Context) -> Response:
    """Jina's and Cohere's form, or that of text-embeddings-inference where the field is called ``texts``."""
    fields = Fields(await context.json())
    lane = _lane(context)
    query = fields.need_text("query")
    tei = fields.has("texts") and not fields.has("documents")
    name = "texts" if tei else "documents"
    texts = _documents(name, fields.raw(name))
    most = fields.integer("top_n", len(texts), 1)
    size = len(query) * len(texts) + sum(map(len, texts))
    work = await off_loop(size * PER_BYTE, lambda: lane.rank(query, texts))
    scores = await context.until_gone(asyncio.wrap_future(work))
    best = sorted(range(len(texts)), key=lambda index: -scores[index].score)[:most]
    return json_response(_ranks(context, fields, tei, texts, scores, best))


def _ranks(
    context: Context,
    fields: Fields,
    tei: bool,
    texts: Sequence[str],
    scores: Sequence[Score],
    best: Sequence[int],
) -> Any:
    told = fields.flag("return_text") or fields.flag("return_documents")
    if tei:
        return [
            {"index": index, "score": scores[index].score, **({"text": texts[index]} if told else {})}
            for index in best
        ]
    tokens = sum(score.tokens for score in scores)
    results = [
        {
            "index": index,
            "relevance_score": scores[index].score,
            **({"document": {"text": texts[index]}} if told else {}),
        }
        for index in best
    ]
    return {
        "object": "list",
        "model": fields.text("model") or context.services.model_name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "results": results,
    }


# ---- reading


def _lane(context: Context) -> Embedder:
    lane: Embedder | None = getattr(context.engine, "embedder", None)
    if lane is None:
        raise ApiError(501, "the engine behind this server computes no embeddings")
    return lane


async def _embed(context: Context, lane: Embedder, fields: Fields, field: str) -> list[Embedding]:
    """Vectors of the texts in ``field``. Raises ApiError."""
    texts = await context.read(lambda: _texts(field, fields.raw(field)))
    normalize = fields.integer("embd_normalize", 2, -1, 100)
    size = sum(map(len, texts))
    work = await off_loop(size * PER_BYTE, lambda: lane.embed(texts, _pooling(fields), normalize))
    return await context.until_gone(asyncio.wrap_future(work))


def _pooling(fields: Fields) -> Pooling | None:
    return cast("Pooling | None", fields.text("pooling") or None)  # the engine refuses any other word


def _texts(field: str, value: Any) -> list[str | list[int]]:
    """One text, one list of token ids, or several of either. Raises ApiError (400)."""
    if value is None:
        raise missing(field)
    if isinstance(value, str):
        return [value]
    items: list[Any] = [value] if isinstance(value, dict) else []
    if isinstance(value, list):
        items = cast("list[Any]", value)
    if not items:
        raise bad(field, f"Field '{field}': expected a text, token ids, or a list of either")
    if all(map(is_integer, items)):
        return [cast("list[int]", items)]
    if len(items) > limits.TEXTS:
        raise bad(field, f"Field '{field}': {len(items)} texts, {limits.TEXTS} are possible")
    return [_one(field, item) for item in items]


def _one(field: str, item: Any) -> str | list[int]:
    if isinstance(item, str):
        return item
    if isinstance(item, list) and all(map(is_integer, cast("list[Any]", item))):
        return cast("list[int]", item)
    entry: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, dict) else {}
    text = entry.get("content", entry.get("prompt_string"))
    if isinstance(text, str) and not entry.get("multimodal_data"):
        return text
    if text is not None or "_url" in str(entry.get("type")):  # parts of a message, or a picture
        raise ApiError(501, "this model reads text only; no images or other media")
    raise bad(field, f"Field '{field}': expected a text, token ids, or a list of either")


def _documents(name: str, value: Any) -> list[str]:
    """Texts, or objects that hold one, as Cohere's clients send them. Raises ApiError (400)."""
    if value is None:
        raise missing(name)
    problem = bad(name, f"Field '{name}': expected a list of texts")
    if not isinstance(value, list) or not value:
        raise problem
    items = cast("list[Any]", value)
    if len(items) > limits.TEXTS:
        raise bad(name, f"Field '{name}': {len(items)} texts, {limits.TEXTS} are possible")
    texts = [cast("dict[str, Any]", item).get("text") if isinstance(item, dict) else item for item in items]
    if not all(isinstance(text, str) for text in texts):
        raise problem
    return cast("list[str]", texts)


def _check_dimensions(fields: Fields, context: Context) -> None:
    width = context.engine.info.n_embd
    if fields.integer("dimensions", width) != width:
        raise bad("dimensions", f"Field 'dimensions': this model's vectors have {width}, and are not cut")


# ---- writing


def _written(one: Embedding, style: str) -> Any:
    if style == "base64":
        return base64.b64encode(one.values.astype("<f4").tobytes()).decode()
    return one.values.tolist()


def _effort(found: Sequence[Embedding]) -> float:
    """Seconds to write so many numbers, about."""
    return sum(one.values.size for one in found) * PER_ENTRY
