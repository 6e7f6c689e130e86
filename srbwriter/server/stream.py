"""Driving a stream: from the engine's events to frames, whatever the dialect.

A dialect gives a writer that turns one batch of events into bytes. Everything that was published since the
last look goes out in one piece, so a busy loop sends fewer, larger pieces instead of falling behind.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Protocol

from srbwriter.engine.types import Event, Failed, Finished, Text

from .call import Call
from .errors import ApiError, from_engine
from .follow import Follower
from .registry import Record
from .work import PER_ENTRY, encode, off_loop

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

    def waiting(self, place: int) -> bytes:
        """What a request is told while it waits, and ``place`` others before it."""
        ...

    def end(self) -> bytes:
        """Frames after the last event."""
        ...

    def error(self, error: ApiError) -> bytes:
        """The frame that ends a stream which had begun well."""
        ...


def waiting_comment(place: int) -> bytes:
    """For streams whose clients know no such frame: they pass comments over."""
    return f": waiting, {place} before this one\n\n".encode()


def error_frame(call: Call, error: ApiError) -> bytes:
    return b"data: " + encode(error.body(call.dialect)) + b"\n\n"


async def frames(call: Call, record: Record, writer: FrameWriter, after: int = 0) -> AsyncGenerator[bytes]:
    """The frames of a record, less its first ``after`` events.

    An error before the first frame is raised, a later one is a frame. A request that waits for others tells
    its place a second later, and whenever that changes.
    """
    begun, quiet, told = False, 0.0, -1
    look = min(1.0, call.settings.ping_seconds)
    with Follower(call.services.bridge, record.generations, after) as follower:
        async for news in follower.batches(look):
            failure = next((event.error for _, event in news if isinstance(event, Failed)), None)
            if failure is not None and not begun:
                break
            if news:
                quiet = 0.0
                out = await off_loop(_seconds(record, news), partial(writer.batch, news))
            elif record.waiting and (place := call.services.registry.place(record)) != told:
                told, out = place, writer.waiting(place)
            else:
                quiet += look
                silent = quiet >= call.settings.ping_seconds
                quiet, out = (0.0, writer.ping) if silent else (quiet, b"")
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


def _seconds(record: Record, news: News) -> float:
    """How long it takes to write the frames of some events, about."""
    entries = 0
    for number, event in news:
        entries += 3
        if isinstance(event, Text):
            entries += sum(2 + 2 * len(known.top) for known in event.logprobs)
        elif isinstance(event, Finished):  # some dialects end with the prompt once more
            entries += len(record.generations[number].prompt_ids) // 4
    return entries * PER_ENTRY
