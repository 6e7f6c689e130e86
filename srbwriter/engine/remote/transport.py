"""HTTP to one address: JSON for questions, events for branches. Every failure comes out as a RemoteError."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, cast

import h2.errors
import h2.exceptions
import httpcore
import httpx
import msgspec

from srbwriter import __version__

from .options import RemoteOptions, address, shown
from .problems import RemoteError, from_answer, from_transport, garbage

logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write a line for every request

_OTHERS = (b":", b"event:", b"id:", b"retry:")
_MOST = 16 << 20  # bytes of one event: more than any answer has
_ANSWER_SECONDS = 30.0  # a question may take; branches may take as long as they like between two tokens

_RESET_SECONDS = 5.0  # that it may take to say that a branch is not wanted any more


class EventReader:
    """Gives the data of each server-sent event that is complete (the HTML standard, section 9.2.6).

    Comments, names and numbers are passed over.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that end in ``chunk``.

        Raises ValueError for a line that is none of an event's, and for an event beyond all bounds.
        """
        text = self._rest + chunk
        if b"\r" in text:
            held = text.endswith(b"\r")  # its line feed may come yet
            lines = text[: len(text) - held].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            text = lines + b"\r" * held
        events: list[bytes] = []
        start = 0
        while (end := text.find(b"\n", start)) >= 0:
            line = text[start:end]
            start = end + 1
            if not line:
                if self._data:
                    events.append(b"\n".join(self._data))
                    self._data = []
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line.startswith(_OTHERS):
                line.decode()  # where the end of such a line is spoilt, data may stand in it
            else:
                raise ValueError("a line of no event")  # to pass it over might be to lose a token
        self._rest = text[start:]
        if len(self._rest) > _MOST or len(self._data) > _MOST:
            raise ValueError("an event without an end")
        return events

    @property
    def whole(self) -> bool:
        """Whether nothing is left of an event that has begun."""
        return not self._rest and not self._data


class Transport:
    """The connections to one address. To be used on one event loop."""

    def __init__(self, url: str, options: RemoteOptions) -> None:
        self.url = address(url)
        self.where = shown(self.url)
        self._options = options
        headers = {"User-Agent": f"srbwriter/{__version__}", "Accept-Encoding": "identity"}
        if options.key:
            headers["Authorization"] = f"Bearer {options.key}"
        self._settings: dict[str, Any] = {
            "base_url": self.url,
            "headers": headers,
            "http2": self.url.startswith("https:"),  # taken where the server offers it
            "verify": httpx.create_ssl_context(options.verify),
            "timeout": httpx.Timeout(options.silent_seconds, connect=options.connect_seconds),
            "limits": httpx.Limits(max_connections=1, keepalive_expiry=60.0),
        }
        self._shared: httpx.AsyncClient | None = None  # that of an HTTP/2 connection, for all requests
        self._free: list[httpx.AsyncClient] = []
        self._busy: set[httpx.AsyncClient] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @contextmanager
    def _client(self) -> Generator[httpx.AsyncClient]:
        """One connection, for one request, or for all if it speaks HTTP/2.

        A pool of httpx looks at each connection before each request. Where the answer is not read to its end
        a connection of HTTP/1.1 goes: httpx may think it in use for ever.
        """
        if self._shared is not None:
            yield self._shared
            return
        client = self._free.pop() if self._free else httpx.AsyncClient(**self._settings)
        self._busy.add(client)
        try:
            yield client
        except BaseException:
            if self._alone(client):
                self._let_go(client)
            raise
        finally:
            if client in self._busy:
                self._busy.discard(client)
                if self._alone(client):
                    self._free.append(client)

    def _alone(self, client: httpx.AsyncClient) -> bool:
        return client is not self._shared

    def _answered(self, client: httpx.AsyncClient, answer: httpx.Response) -> None:
        if answer.http_version == "HTTP/2" and (connections := _multiplexed(client)):
            for connection in connections:
                _read_for_all(connection)
            self._shared = self._shared or client

    def _let_go(self, client: httpx.AsyncClient) -> None:
        self._busy.discard(client)
        if client is self._shared:
            self._shared = None
        self._beside(client.aclose())

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        closing = asyncio.get_running_loop().create_task(work)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _reset(self, client: httpx.AsyncClient, stream: int) -> None:
        """End one stream of a connection that others share; httpcore forgets it and tells nobody."""
        for connection in _multiplexed(client):
            with suppress(h2.exceptions.ProtocolError, KeyError):  # it is over
                connection._h2_state.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
            with suppress(OSError, httpcore.NetworkError, httpcore.TimeoutException):  # all of it is over
                async with connection._write_lock:
                    data = connection._h2_state.data_to_send()
                    await connection._network_stream.write(data, _RESET_SECONDS)

    async def ask(
        self, method: str, path: str, body: Any = None, seconds: float = _ANSWER_SECONDS
    ) -> Any:  # fmt: skip
        """The JSON that is answered. Raises RemoteError."""
        data = await self.read(method, path, body, seconds)
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise garbage(self.where, data) from None

    async def read(
        self, method: str, path: str, body: Any = None, seconds: float = _ANSWER_SECONDS
    ) -> bytes:  # fmt: skip
        """The body of the answer. Raises RemoteError."""
        content = None if body is None else msgspec.json.encode(body)
        timeout = httpx.Timeout(seconds, connect=self._options.connect_seconds)
        headers = _JSON if content is not None else None
        try:
            with self._client() as client:
                answer = await client.request(method, path, content=content, headers=headers, timeout=timeout)
                self._answered(client, answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise from_transport(self.where, error) from error
        if not answer.is_success:
            raise from_answer(self.where, answer.status_code, answer.headers, answer.content)
        return answer.content

    @asynccontextmanager
    async def events(self, path: str, body: Any) -> AsyncGenerator[AsyncGenerator[list[bytes]]]:
        """The data of events, as many at a time as came together; leaving closes the connection.

        Raises RemoteError, also while it is read.
        """
        number, whole = 0, False  # of the stream, if the connection has several

        async def watch(event: str, info: Mapping[str, Any]) -> None:
            nonlocal number
            if event == "http2.send_request_headers.started":
                number = info["stream_id"]

        content = msgspec.json.encode(body)
        with self._client() as client:
            try:
                async with client.stream(
                    "POST", path, content=content, headers=_JSON, extensions={"trace": watch}
                ) as answer:
                    self._answered(client, answer)
                    if not answer.is_success:
                        data = await answer.aread()
                        raise from_answer(self.where, answer.status_code, answer.headers, data)
                    yield self._events(answer)
                    whole = answer.is_closed  # as it is once it has been read to its end
                    if not whole and not number:
                        self._let_go(client)
            except (httpx.HTTPError, httpx.StreamError) as error:
                raise from_transport(self.where, error) from error
            finally:
                if number and not whole:
                    self._beside(self._reset(client, number))

    async def _events(self, answer: httpx.Response) -> AsyncGenerator[list[bytes]]:
        reader = EventReader()
        async for chunk in answer.aiter_raw():
            try:
                events = reader.feed(chunk)
            except ValueError:
                raise garbage(self.where, chunk) from None
            if events:
                yield events

    async def close(self) -> None:
        await asyncio.gather(*self._closing, return_exceptions=True)
        for client in {*self._free, *self._busy, *filter(None, [self._shared])}:
            await client.aclose()


def _multiplexed(client: httpx.AsyncClient) -> list[Any]:
    """Its connections that several requests can share; none where this httpcore is made otherwise."""
    try:
        pooled = [each._connection for each in cast(Any, client)._transport._pool.connections]
    except AttributeError:
        return []
    return [each for each in pooled if all(hasattr(each, name) for name in _INSIDE)]


_INSIDE = ("_events", "_h2_state", "_network_stream", "_receive_events", "_write_lock")
"""What is used of httpcore's own (1.0) that it does not promise. Without it each request has a connection."""


def _read_for_all(connection: Any) -> None:
    """Let whoever reads wake everybody whose events came.

    In httpcore those who wait take turns at reading, so that one whose event is there may wait behind another
    who reads and for whom nothing comes.
    """
    if "_receive_events" in vars(connection):
        return
    receive = connection._receive_events
    reading: asyncio.Event | None = None

    async def receive_events(request: Any, stream_id: int | None = None) -> None:
        nonlocal reading
        if stream_id is not None and connection._events.get(stream_id):
            return
        if reading is not None:
            await reading.wait()
            return
        reading = read = asyncio.Event()
        try:
            await receive(request)
        finally:
            reading = None
            read.set()

    connection._receive_events = receive_events


_JSON = {"Content-Type": "application/json"}

__all__ = ["RemoteError", "Transport"]
