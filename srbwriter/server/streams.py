"""Carry an answer from the engine's thread to the event loop while it is written, and on to the client.

The engine wakes the loop at most once per step, and thirty times a second, however many streams there are.
Each follower then reads its generations' logs by index. Nothing is queued for a slow reader: the next read
returns every event published since the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Event, Text
from srbwriter.server.errors import ApiError
from srbwriter.server.registry import Record

T = TypeVar("T")

JSON = "application/json; charset=utf-8"

EVENTS = "text/event-stream; charset=utf-8"
PING = b": ping\n\n"

News = Sequence[tuple[int, Event]]
"""Events, each with the number of its generation; generations are numbered by prompt."""

_MOST = 1000  # events; writing as many frames takes some milliseconds


TICK_SECONDS = 1 / 30
"""Seconds between two wakings while tokens come faster: no eye tells them apart, and each waking takes a
core from a step (8.5 M, two cores, n = 1: 375 tokens/s at 0.01, 398 here, 412 at 0.1, 425 without HTTP)."""


class Notifier:
    """Wake one event loop from the engine's thread when there are new events."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._dirty: set[asyncio.Event] = set()
        self._tick: asyncio.TimerHandle | None = None  # the next waking, if there was one just now

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def listener(self, event: asyncio.Event, urgent: Callable[[], bool]) -> Callable[[], None]:
        """Return a listener that sets ``event`` on the loop: at the next tick, or at once if ``urgent``.

        Only the first call of a step wakes the loop.
        """
        loop = self._loop
        assert loop is not None, "the bridge is attached when the application starts"

        def listen() -> None:
            with self._lock:
                first = not self._dirty and self._tick is None
                self._dirty.add(event)
            if first or urgent():
                # The loop may have closed with the server while the engine goes on for others.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._flush)

        return listen

    def _flush(self) -> None:
        assert self._loop is not None
        with self._lock:
            dirty, self._dirty = self._dirty, set()
            if self._tick is not None:
                self._tick.cancel()
            self._tick = self._loop.call_later(TICK_SECONDS, self._flush) if dirty else None
        for event in dirty:
            event.set()


class Follower:
    """Read the events of several generations until all have ended. Use as a context manager."""

    def __init__(self, notifier: Notifier, generations: Sequence[Generation], after: int = 0) -> None:
        self.generations = tuple(generations)
        self._news = asyncio.Event()
        self._positions = [min(after, len(generation.log)) for generation in self.generations]
        self._writing = False  # whether text has been read
        listen = notifier.listener(self._news, self._is_urgent)
        self._removals = [generation.add_listener(listen) for generation in self.generations]

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        for remove in self._removals:
            remove()

    def _is_urgent(self) -> bool:
        """Whether the first text has come, or all have ended."""
        return not self._writing or all(generation.done for generation in self.generations)

    def take(self) -> list[tuple[int, Event]]:
        """Return unread events, each with the number of its generation; at most 1000 of one generation."""
        news: list[tuple[int, Event]] = []
        for number, generation in enumerate(self.generations):
            log, start = generation.log, self._positions[number]
            end = min(len(log), start + _MOST)
            if end > start:
                news.extend((number, event) for event in log[start:end])
                self._positions[number] = end
        self._writing = self._writing or any(isinstance(event, Text) for _, event in news)
        return news

    async def batches(self, idle: float | None = None) -> AsyncIterator[list[tuple[int, Event]]]:
        """Yield events as they are published; an empty list after ``idle`` seconds without one."""
        while True:
            self._news.clear()
            done = all(generation.done for generation in self.generations)
            news = self.take()
            if news:
                yield news
            elif done:
                return
            else:
                try:
                    async with asyncio.timeout(idle):
                        await self._news.wait()
                except TimeoutError:
                    yield []

    async def finish(self) -> None:
        """Wait until every generation has ended. Raises the first one's error."""
        async for _ in self.batches():
            pass
        for generation in self.generations:
            if generation.error is not None:
                raise generation.error


# ---- answers of a dialect


class Reply(Protocol):
    """A dialect's answer to one record, in frames or whole."""

    @property
    def stream(self) -> bool:
        """Whether the client asked for a stream."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The response headers of a stream, ``content-type`` included."""
        ...

    @property
    def ping(self) -> bytes:
        """Bytes that keep a silent connection open; empty if the dialect has none."""
        ...

    def begin(self, record: Record) -> None:
        """Take the record to answer; called once, before anything else."""
        ...

    def whole(self) -> Any:
        """Return the JSON value of the whole answer, after every branch has ended."""
        ...

    def batch(self, news: News) -> bytes:
        """Return frames for a batch of events, possibly none."""
        ...

    def waiting(self, place: int) -> bytes:
        """Return frames for a request that waits behind ``place`` others."""
        ...

    def end(self) -> bytes:
        """Return frames after the last event."""
        ...

    def error(self, error: ApiError) -> bytes:
        """Return the frame that ends a stream which had begun well."""
        ...


def waiting_comment(place: int) -> bytes:
    """Return the place in the queue as an SSE comment, for clients that know no frame for it."""
    return f": waiting, {place} before this one\n\n".encode()


class ClientGone(Exception):
    """The client closed its connection before it was answered."""


def cancel(record: Record) -> None:
    """Cancel the generations of a record that have not ended."""
    for generation in record.generations:
        if not generation.done:
            generation.cancel()


# ---- sending


async def _send_body(send: Send, body: bytes, *, more: bool) -> None:
    """Send a body in pieces: the loop copies each piece, and waits for slow readers between two."""
    for start in range(0, max(len(body), 1), _PIECE):
        end = start + _PIECE
        rest = more or end < len(body)
        await send({"type": "http.response.body", "body": body[start:end], "more_body": rest})


_PIECE = 256 * 1024  # bytes


class WholeResponse(Response):
    """A response whose body may be large; it is sent in pieces."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await _send_body(send, bytes(self.body), more=False)


class StreamResponse(Response):
    """Send frames as they come; stop at once when the client disconnects or stops reading."""

    def __init__(
        self,
        first: bytes,
        frames: AsyncGenerator[bytes],
        headers: Mapping[str, str],
        gone: asyncio.Task[None],
        timeout: float,
        close: Callable[[], None],
    ) -> None:
        super().__init__(None, 200, headers)
        del self.headers["content-length"]
        self._first, self._frames, self._gone = first, frames, gone
        self._timeout, self._close = timeout, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = asyncio.create_task(self._write(send))
        try:
            await asyncio.wait({writer, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done():
                writer.result()
        finally:
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await writer
            await self._frames.aclose()
            self._close()

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        frame = self._first
        with contextlib.suppress(TimeoutError):  # a client that stopped reading is dropped
            while frame:
                async with asyncio.timeout(self._timeout):
                    await _send_body(send, frame, more=True)
                frame = await anext(self._frames, b"")
            await send({"type": "http.response.body", "body": b"", "more_body": False})
