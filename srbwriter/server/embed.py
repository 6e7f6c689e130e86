"""Vectors of texts. They are computed in a lane of the engine's own; a client that leaves ends its work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from srbwriter.engine.embedding import Embedding, Pooling
from srbwriter.server.context import Context
from srbwriter.server.work import PER_BYTE, off_loop


async def embed(
    context: Context, texts: Sequence[str | list[int]], normalize: int = 2, pooling: Pooling | None = None
) -> list[Embedding]:
    """Vectors of texts or token ids. Raises ApiError and EngineError."""
    lane, size = context.engine.embedder, sum(map(len, texts))
    work = await off_loop(size * PER_BYTE, lambda: lane.embed(texts, pooling, normalize))
    return await context.until_gone(asyncio.wrap_future(work))
