"""What an answer needs to ask the model besides: requests whose texts no client reads.

They go to the engine a few at a time: each counts as a request that is being answered, and whoever asks a
thousand questions shall take nobody's place.
"""

from __future__ import annotations

from collections.abc import Sequence

from srbwriter.engine.exploring import with_fewer
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Request
from srbwriter.server.context import Context, cancel
from srbwriter.server.errors import ApiError, from_engine
from srbwriter.server.notifier import Follower
from srbwriter.server.registry import Record, new_id

AT_ONCE = 32


async def answered(context: Context, asked: Sequence[Request]) -> list[Generation]:
    """All of ``asked``, when they are done. Raises ApiError for one that failed."""
    portion = max(min(AT_ONCE, context.settings.max_requests), 1)
    done: list[Generation] = []
    for start in range(0, len(asked), portion):
        done += await _portion(context, asked[start : start + portion])
    return done


async def _portion(context: Context, asked: Sequence[Request]) -> Sequence[Generation]:
    record = await _submitted(context, asked)
    try:
        with Follower(context.services.notifier, record.generations) as follower:
            await follower.finish()
    finally:
        cancel(record)
        context.services.registry.remove(record)
    error = next((g.error for g in record.generations if g.error is not None), None)
    if error is not None:
        raise from_engine(error)
    return record.generations


async def _submitted(context: Context, asked: Sequence[Request]) -> Record:
    """An engine elsewhere that tells fewer tokens is asked for fewer. Raises ApiError."""
    while True:
        try:
            return await context.submit(asked, new_id())
        except ApiError as error:
            fewer = [one for one in map(with_fewer, asked) if one is not None]
            if error.status != 400 or "next_logprobs" not in str(error) or len(fewer) < len(asked):
                raise
            asked = fewer
