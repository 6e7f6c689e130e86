"""Embeddings: the seam where an engine that computes them will be plugged in.

Until then both dialects say that there are none.
"""

from __future__ import annotations

from starlette.responses import Response

from .call import Call
from .errors import ApiError


async def openai_embeddings(call: Call) -> Response:
    return await _refusal(call)


async def native_embeddings(call: Call) -> Response:
    return await _refusal(call)


async def _refusal(call: Call) -> Response:
    await call.json()
    raise ApiError(501, "this server does not compute embeddings")
