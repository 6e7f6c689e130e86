"""Vectors of texts and ranks of texts, in every form that clients ask for them.

OpenAI's form, llama.cpp's, Jina's and Cohere's, and that of text-embeddings-inference.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from starlette.responses import Response

from srbwriter.engine import limits
from srbwriter.server.body import Fields
from srbwriter.server.context import Context, json_response
from srbwriter.server.endpoints import Leaf, rows_of
from srbwriter.server.errors import LLAMACPP, OPENAI, ApiError, bad, missing
from srbwriter.server.prompts import is_integer, refuse_media
from srbwriter.server.schemas import (
    AT_LEAST_ONE,
    PROMPT,
    TEXTS,
    I,
    N,
    S,
    answers,
    listed,
    object_of,
    only,
    record,
)
from srbwriter.server.work import PER_BYTE, PER_ENTRY, off_loop

if TYPE_CHECKING:
    from srbwriter.engine.embedding import Embedding, Pooling, Score  # loads llama.cpp

_FORMATS = ("float", "base64")


async def openai_embeddings(context: Context) -> Response:
    """``input`` in OpenAI's form; ``content``, which OpenAI does not know, in llama.cpp's."""
    fields = await context.fields()
    _ = context.engine.embedder  # 501 before anything is read, where it has none
    refuse_media(fields.values)
    if not fields.has("input") and fields.has("content"):
        return await _native(context, fields)
    style = fields.text("encoding_format", "float")
    if style not in _FORMATS:
        raise bad("encoding_format", "Field 'encoding_format': expected float or base64")
    if _pooling(fields) == "none":
        raise bad("pooling", "Field 'pooling': none gives a vector for each token; ask /embeddings for those")
    _check_dimensions(fields, context)
    found = await _embed(context, fields, "input")
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
    _ = context.engine.embedder
    return await _native(context, await context.fields())


async def _native(context: Context, fields: Fields) -> Response:
    """A list of vectors for each text, even where it is a single one."""
    refuse_media(fields.values)
    found = await _embed(
        context, fields, "input" if fields.has("input") and not fields.has("content") else "content"
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
    fields = await context.fields()
    lane = context.engine.embedder
    query = fields.need_text("query")
    tei = fields.has("texts") and not fields.has("documents")
    name = "texts" if tei else "documents"
    texts = _documents(name, fields.raw(name))
    most = max(fields.integer("top_n", len(texts)), 1)
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
    with_text = fields.flag("return_text") or fields.flag("return_documents")
    if tei:
        return [
            {"index": index, "score": scores[index].score, **({"text": texts[index]} if with_text else {})}
            for index in best
        ]
    tokens = sum(score.tokens for score in scores)
    results = [
        {
            "index": index,
            "relevance_score": scores[index].score,
            **({"document": {"text": texts[index]}} if with_text else {}),
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


async def _embed(context: Context, fields: Fields, field: str) -> list[Embedding]:
    """Vectors of the texts in ``field``. Raises ApiError."""
    texts = await context.read(lambda fields, _: _texts(field, fields.raw(field)))
    normalize = max(-1, min(fields.integer("embd_normalize", 2), 100))
    return await context.embed(texts, normalize, _pooling(fields))


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


# ---- rows

_COMMON: dict[str, Any] = {
    "embd_normalize": {"type": "integer", "minimum": -1, "maximum": 100},
    "pooling": {"type": "string", "enum": ["none", "mean", "cls", "last"]},
}
_NATIVE = object_of("content", content=PROMPT, **_COMMON)

_RERANK = object_of(
    "query documents",
    query="string",
    documents=TEXTS,
    texts={**TEXTS, "description": "TEI's name, and answer."},
    top_n=AT_LEAST_ONE,
    return_text="boolean",
    return_documents="boolean",
    model="string",
    example={"query": "Who ran?", "documents": ["The fox ran.", "It rained."]},
)
_OPENAI = object_of(
    "input",
    input=PROMPT,
    model="string",
    encoding_format={"type": "string", "enum": ["float", "base64"]},
    dimensions={"type": "integer", "description": "Only what the model has."},
    **_COMMON,
)
_SCHEMAS = {
    "Embeddings": record(
        object=only("list"),
        model=S,
        usage=record(prompt_tokens=I, total_tokens=I),
        data=listed(record(object=only("embedding"), index=I, embedding={"anyOf": [listed(N), S]})),
    ),
}
_of_openai, _of_llamacpp = rows_of(OPENAI, "OpenAI"), rows_of(LLAMACPP, "llama.cpp")
LEAF = Leaf(
    rows=(
        _of_openai("POST /v1/embeddings", openai_embeddings, "embeddings of texts", body=_OPENAI,
                   answers=answers("Embeddings")),
        _of_llamacpp("POST /embedding /embeddings", native_embeddings, "embeddings of texts", body=_NATIVE),
        _of_llamacpp("POST /v1/rerank /rerank /v1/reranking /reranking", rerank,
                     "how well texts answer a question, best first; for models with a head for it",
                     body=_RERANK),
    ),
    schemas=_SCHEMAS,
)  # fmt: skip
