"""Vectors of texts, in OpenAI's form and in llama.cpp's."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from starlette.responses import Response

from srbwriter.engine import limits
from srbwriter.server.body import Fields
from srbwriter.server.context import Context
from srbwriter.server.endpoints import Leaf, rows_of
from srbwriter.server.errors import LLAMACPP, OPENAI, ApiError, bad, missing
from srbwriter.server.prompts import is_integer, refuse_media
from srbwriter.server.schemas import PROMPT, object_of
from srbwriter.server.work import PER_ENTRY

if TYPE_CHECKING:
    from srbwriter.engine.embedding import Embedding, Pooling  # loads llama.cpp

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
        lambda: [{"index": index, "embedding": [one.values.tolist()]} for index, one in enumerate(found)],
    )


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
    "pooling": {"type": "string", "enum": ["mean", "cls", "last"]},
}
_NATIVE = object_of("content", content=PROMPT, **_COMMON)

_OPENAI = object_of(
    "input",
    input=PROMPT,
    model="string",
    encoding_format={"type": "string", "enum": ["float", "base64"]},
    dimensions={"type": "integer", "description": "Only what the model has."},
    **_COMMON,
)
_of_openai, _of_llamacpp = rows_of(OPENAI, "OpenAI"), rows_of(LLAMACPP, "llama.cpp")
LEAF = Leaf(
    rows=(
        _of_openai("POST /v1/embeddings", openai_embeddings, "embeddings of texts", body=_OPENAI),
        _of_llamacpp("POST /embedding /embeddings", native_embeddings, "embeddings of texts", body=_NATIVE),
    ),
)  # fmt: skip
