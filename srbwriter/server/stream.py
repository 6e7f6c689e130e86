"""Driving a stream: from the engine's events to frames, whatever the dialect.

A dialect gives a writer that turns one batch of events into bytes. Everything that was published since the
last look goes out in one piece, so a busy loop sends fewer, larger pieces instead of falling behind.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from srbwriter.engine.types import Event, Failed

from .call import Call, encode
from .errors import ApiError, from_engine
from .follow import Follower
from .registry import Record

News = Sequence[tuple[int, Event]]

PING = b": ping\n\n"


class FrameWriter(Protocol):
    """A dialect's frames. Generations are numbered by prompt."""

    @property
    def ping(self) -> bytes:
        """What keeps a silent connection open; empty if the dialect has nothing of the kind."""
        ...

    def batch(self, news: News) -> bytes:
        """Frames for a batch of events, possibly none."""
        ...

    def end(self) -> bytes:
        """Frames after the last event."""
        ...

    def error(self, error: ApiError) -> bytes:
        """The frame that ends a stream which had begun well."""
        ...


def error_frame(call: Call, error: ApiError) -> bytes:
    return b"data: " + encode(error.body(call.dialect)) + b"\n\n"


async def frames(call: Call, record: Record, writer: FrameWriter, after: int = 0) -> AsyncGenerator[bytes]:
    """The frames of a record, less its first ``after`` events.

    An error before the first frame is raised, a later one is a frame.
    """
    begun = False
    with Follower(call.services.bridge, record.generations, after) as follower:
        async for news in follower.batches(call.settings.ping_seconds):
            failure = next((event.error for _, event in news if isinstance(event, Failed)), None)
            if failure is not None and not begun:
                break
            out = writer.batch(news) if news else writer.ping
            if out:
                begun = True
                yield out
            if failure is not None:
                break
    error = next((g.error for g in record.generations if g.error is not None), None)
    if error is None:
        yield writer.end()
    elif begun:
        yield writer.error(from_engine(error))
    else:
        raise from_engine(error)
