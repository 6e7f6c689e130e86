"""One client of either line protocol: its input, and turns written for it.

Input is read while a turn is written, so that STOP and a disconnect take effect at once. Turns are read from
the engine's buffers: a slow client delays no other, and gets everything new in its next line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from srbwriter.engine.backend import Backend
from srbwriter.engine.types import Event, Request
from srbwriter.server.errors import from_engine
from srbwriter.server.lines.conversation import Knobs, Runs, Talk, typed
from srbwriter.server.lines.wire import MOST, Fatal, Intake, Pipe
from srbwriter.server.registry import Record, new_id
from srbwriter.server.services import Services
from srbwriter.server.settings import Client
from srbwriter.server.streams import Follower, cancel

_AHEAD = 100  # commands that may wait; more are left unread
_LOOK = 0.1  # seconds between looks at a model that is being loaded


@dataclass(slots=True, eq=False)
class Asked:
    """A command on its way."""

    word: bytes
    rest: bytes
    stopped: bool = False


class Inbox:
    """Commands that wait, so many and so long in all that a client cannot fill the memory with them."""

    def __init__(self) -> None:
        self._waiting: deque[Asked] = deque()
        self._size = 0
        self._changed = asyncio.Condition()
        self.current: Asked | None = None

    def pending(self) -> list[Asked]:
        """All that has not been answered."""
        return [*([self.current] if self.current else ()), *self._waiting]

    async def put(self, asked: Asked) -> None:
        """Waits for room."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < _AHEAD and self._size <= MOST)
            self._waiting.append(asked)
            self._size += len(asked.rest)
            self._changed.notify_all()

    async def get(self) -> Asked:
        """The next one; the one before it is done."""
        self.current = None
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting)
            self.current = self._waiting.popleft()
            self._size -= len(self.current.rest)
            self._changed.notify_all()
            return self.current


async def until_loaded(services: Services) -> Backend:
    """The engine, once there is one. Raises Fatal when it could not be loaded."""
    loader = services.loader
    while loader.engine is None:
        if loader.error is not None:
            raise Fatal(f"the model could not be loaded: {loader.error}")
        await asyncio.sleep(_LOOK)
    return loader.engine


class Peer:
    """A client and its conversation. ``patient``: what was asked is answered though no more will come."""

    def __init__(self, services: Services, pipe: Pipe, intake: Intake, client: Client, patient: bool) -> None:
        self.services, self.pipe, self.intake, self.client = services, pipe, intake, client
        self.patient = patient
        self.inbox = Inbox()
        self.knobs = Knobs(services)
        self.talk = Talk()
        self._record: Record | None = None

    @property
    def engine(self) -> Backend:
        return self.services.engine

    async def line(self) -> bytes | None:
        """The next line. Raises Fatal for a client that is silent for long while nothing is done for it."""
        while True:
            try:
                async with asyncio.timeout(None if self.patient else self.services.settings.timeout):
                    return await self.intake.line()
            except TimeoutError:
                if not self.inbox.pending() and self._record is None:
                    raise Fatal("nothing was said for too long") from None

    async def both(self, reading: Coroutine[Any, Any, None], working: Coroutine[Any, Any, None]) -> None:
        """Read input and work until the work ends or the client disconnects; cancel the current turn then."""
        reader, worker = asyncio.create_task(reading), asyncio.create_task(working)
        try:
            await asyncio.wait({reader, worker}, return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                reader.result()
            if worker.done() or self.patient:
                await worker
        finally:
            for task in (reader, worker):
                task.cancel()
            await asyncio.gather(reader, worker, return_exceptions=True)

    def stop(self) -> bool:
        """End what has been asked up to here. False where nothing is under way."""
        pending = self.inbox.pending()
        for asked in pending:
            asked.stopped = True
        if self._record is not None:
            cancel(self._record)
        return bool(pending)

    async def ask(self, request: Request, asked: Asked) -> Record:
        """Hand a request to the engine. Raises ApiError."""
        handing = asyncio.ensure_future(self.services.submit([request], self.client, new_id()))
        try:
            record = await asyncio.shield(handing)
        except asyncio.CancelledError:
            handing.add_done_callback(_take_back)  # it may be on its way to the engine already
            raise
        if asked.stopped:
            cancel(record)
        return record

    async def batches(self, record: Record) -> AsyncGenerator[Sequence[Event]]:
        """Yield the events of a request, and empty batches while it waits.

        Cancels the request when the caller stops reading. Raises ApiError where it failed.
        """
        self._record = record
        try:
            with Follower(self.services.notifier, record.generations) as follower:
                async for news in follower.batches(1.0):
                    yield [event for _, event in news]
            if (error := record.generation.error) is not None:
                raise from_engine(error) from error
        finally:
            self._record = None
            cancel(record)

    def prompt(self, text: str) -> Runs:
        """The conversation with ``text`` after it. Raises Refused."""
        self.talk.check()
        return (*self.talk.runs, *typed(text))


def _take_back(handing: asyncio.Future[Record]) -> None:
    if not handing.cancelled() and handing.exception() is None:
        cancel(handing.result())
