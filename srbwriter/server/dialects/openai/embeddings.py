"""Embeddings, behind the seam where an engine that computes them will be plugged in."""

from __future__ import annotations

from starlette.responses import Response

from srbwriter.server.call import Call
from srbwriter.server.errors import ApiError


async def embeddings(call: Call) -> Response:
    await call.json()
    raise ApiError(501, "this server does not compute embeddings")
