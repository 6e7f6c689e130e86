"""From the engine's thread to the event loop: following generations without ever making them wait.

The engine wakes the loop at most once per step whatever the number of streams; each follower then reads
its generations' logs by index. A reader that is slow finds more to read, and nothing is queued for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence

from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Event

_MOST = 1000  # events; writing as many frames takes some milliseconds


class Notifier:
    """Carries "there is news" from the engine's thread to one loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._dirty: list[asyncio.Event] = []

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def listener(self, event: asyncio.Event) -> Callable[[], None]:
        """A listener that sets ``event`` on the loop; only the first of a step wakes the loop."""
        loop = self._loop
        assert loop is not None, "the bridge is attached when the application starts"

        def listen() -> None:
            with self._lock:
                self._dirty.append(event)
                first = len(self._dirty) == 1
            if first:
                # The loop may have closed with the server while the engine goes on for others.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._flush)

        return listen

    def _flush(self) -> None:
        with self._lock:
            dirty, self._dirty = self._dirty, []
        for event in dirty:
            event.set()


class Follower:
    """Reads several generations to their ends. Use as a context manager."""

    def __init__(self, notifier: Notifier, generations: Sequence[Generation], after: int = 0) -> None:
        self.generations = tuple(generations)
        self._news = asyncio.Event()
        self._positions = [min(after, len(generation.log)) for generation in self.generations]
        listen = notifier.listener(self._news)
        self._removals = [generation.add_listener(listen) for generation in self.generations]

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        for remove in self._removals:
            remove()

    @property
    def done(self) -> bool:
        """Every generation has ended and all of its events were read."""
        return all(
            generation.done and position >= len(generation.log)
            for generation, position in zip(self.generations, self._positions, strict=True)
        )

    def take(self) -> list[tuple[int, Event]]:
        """Events not seen yet, each with the number of its generation; of long ones the next thousand."""
        news: list[tuple[int, Event]] = []
        for number, generation in enumerate(self.generations):
            log, start = generation.log, self._positions[number]
            end = min(len(log), start + _MOST)
            if end > start:
                news.extend((number, event) for event in log[start:end])
                self._positions[number] = end
        return news

    async def batches(self, idle: float | None = None) -> AsyncIterator[list[tuple[int, Event]]]:
        """Events as they come; an empty list when nothing has happened for ``idle`` seconds."""
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
