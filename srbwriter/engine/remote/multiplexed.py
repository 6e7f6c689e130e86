"""One connection of HTTP/2 for many requests, each of which can be left while the others go on.

httpcore (1.0) has such connections, but whoever cancels a request in the midst of a write spoils the
connection for all, nobody over there is told, and those who wait take turns at reading: one whose answer is
there may wait behind another for whom nothing comes. Here a request is never cancelled: its stream is
reset, and httpcore ends it as it ends one that the server has reset. One task reads for all.

This leans on attributes that httpcore does not promise. With a release that has others, HTTP/1.1 is spoken:
see :func:`unknown`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import h2.errors
import h2.events
import h2.exceptions
import httpcore
import httpx

_INSIDE = ("_events", "_h2_state", "_receive_events", "_write_outgoing_data", "_connection")
_BROKEN = (OSError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)

Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Runs work beside everything else and keeps it until it ends."""


class Left(Exception):  # noqa: N818
    """Ends a request that nobody waits for any more."""


class Shared:
    """What is known of one connection. To be used on its event loop."""

    def __init__(self, connection: Any, spawn: Spawn) -> None:
        self._connection, self._spawn = connection, spawn
        self._receive = connection._receive_events
        self._waiting: dict[object, asyncio.Event] = {}
        self._reading = False
        self._broken: Exception | None = None
        self._left: set[int] = set()
        connection._receive_events = self._wait

    async def _wait(self, request: httpcore.Request, stream: int | None = None) -> None:
        """In httpcore's place: return when something came for a stream, or anything, if none is named.

        Raises Left, and what broke the connection.
        """
        if stream in self._left:
            raise Left
        if stream is not None and self._connection._events.get(stream):
            return
        came = asyncio.Event()
        key: object = came if stream is None else stream
        self._waiting[key] = came
        if not self._reading:
            self._reading = True
            self._spawn(self._read())
        try:
            limits: dict[str, float | None] = cast(Any, request).extensions.get("timeout", {})
            async with asyncio.timeout(limits.get("read")):
                await came.wait()
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        finally:
            del self._waiting[key]
        if stream in self._left:
            raise Left
        if self._broken is not None and not (stream and self._connection._events.get(stream)):
            raise self._broken

    async def _read(self) -> None:
        try:
            while self._waiting:
                await self._receive(_FOR_ALL)
                for key, came in self._waiting.items():
                    if came is key or self._connection._events.get(key):
                        came.set()
        except Exception as error:  # theirs who wait: nobody else would wake them
            self._broken = error
        finally:
            self._reading = False
            if self._broken is not None:
                for came in self._waiting.values():
                    came.set()

    def has(self, stream: int) -> bool:
        """Whether a request of that number is under way."""
        return stream in self._connection._events

    def leave(self, stream: int) -> None:
        """Have a stream end, here at once, and there as soon as they hear of it."""
        events = self._connection._events.get(stream)
        if events is None:
            return  # it is over
        state = self._connection._h2_state
        with suppress(h2.exceptions.ProtocolError):  # they ended it just now
            for event in events:  # what nobody reads takes no room of the others
                if isinstance(event, h2.events.DataReceived):
                    state.acknowledge_received_data(event.flow_controlled_length, stream)
            state.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        events.clear()
        self._left = {one for one in self._left if self.has(one)} | {stream}
        if came := self._waiting.get(stream):
            came.set()
        self._spawn(self._tell())

    async def _tell(self) -> None:
        with suppress(*_BROKEN):  # all of it is over
            await self._connection._write_outgoing_data(_FOR_ALL)


_FOR_ALL = httpcore.Request("GET", "https://all/")  # reading and writing ask a request for its time limits


def of(client: httpx.AsyncClient, spawn: Spawn) -> list[Shared]:
    """The connections of a client that requests can share."""
    pooled = [each._connection for each in cast(Any, client)._transport._pool.connections]
    found: list[Shared] = []
    for each in pooled:
        if isinstance(each, httpcore.AsyncHTTP2Connection):
            reader = getattr(cast(Any, each)._receive_events, "__self__", None)
            found.append(reader if isinstance(reader, Shared) else Shared(each, spawn))
    return found


def unknown() -> str:
    """Why connections cannot be shared with the httpcore that is installed; nothing if they can."""
    origin, silent = httpcore.Origin(b"https", b"all", 443), httpcore.AsyncMockStream([])
    whole = httpcore.AsyncHTTP2Connection(origin, silent), httpcore.AsyncHTTPConnection(origin)
    lacking = [name for name in _INSIDE if not any(hasattr(each, name) for each in whole)]
    lacking += [] if hasattr(httpx.AsyncHTTPTransport(verify=False), "_pool") else ["_pool"]
    if not lacking:
        return ""
    return f"httpcore {httpcore.__version__} is made in another way than 1.0 (no {', '.join(lacking)})"
