"""HTTP to one address: JSON for questions, events for branches. Every failure comes out as a RemoteError."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import msgspec

from srbwriter import __version__

from ..types import RemoteError
from . import multiplexed
from .options import RemoteOptions, address, shown
from .problems import from_answer, from_transport, garbage

log = logging.getLogger(__name__)
logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write a line for every request

_OTHERS = (b":", b"event:", b"id:", b"retry:")
_MOST = 16 << 20  # bytes of one event: more than any answer has
_ANSWER_SECONDS = 30.0  # a question may take; branches may take as long as they like between two tokens
_HANDSHAKE_SECONDS = 3.0
_AHEAD = 64  # pieces of an answer that may wait for whoever reads it


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


@dataclass(frozen=True)
class Answer:
    """What has come of an answer, and what comes."""

    response: httpx.Response
    chunks: AsyncGenerator[bytes]

    async def whole(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks])


class Exchange:
    """A request run by a task of its own, so that leaving it breaks off no write that others need whole."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[httpx.Response | bytes | Exception | None] = asyncio.Queue(_AHEAD)
        self.client: httpx.AsyncClient | None = None
        self.spawn: multiplexed.Spawn
        self.left = False
        self._stream: tuple[multiplexed.Shared, int] | None = None

    async def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """httpcore's tracing: its requests have numbers where several share a connection."""
        if event == "http2.send_request_headers.started" and self.client is not None:
            if self.left:
                raise multiplexed.Left
            number = info["stream_id"]
            for connection in multiplexed.of(self.client, self.spawn):
                if connection.has(number):
                    self._stream = connection, number

    async def get(self) -> httpx.Response | bytes | None:
        """What comes next; None at the end. Raises what the request failed with."""
        item = await self.items.get()
        if isinstance(item, Exception):
            raise item
        return item

    async def rest(self) -> AsyncGenerator[bytes]:
        """The body, as it comes."""
        while isinstance(chunk := await self.get(), bytes):
            yield chunk

    def leave(self) -> None:
        """Nobody reads it any more."""
        self.left = True
        while not self.items.empty():  # the task may wait for room
            self.items.get_nowait()
        if self._stream is not None:
            connection, number = self._stream
            connection.leave(number)


def body_of(response: httpx.Response) -> AsyncGenerator[bytes]:
    """Its bytes as they come, unpacked if somebody packed them though they were asked not to."""
    chunks = response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()
    return cast("AsyncGenerator[bytes]", chunks)


class Transport:
    """The connections to one address. To be used on one event loop."""

    def __init__(self, url: str, options: RemoteOptions) -> None:
        self.url = address(url)
        self.where = shown(self.url)
        self._options = options
        headers = {"User-Agent": f"srbwriter/{__version__}", "Accept-Encoding": "identity"}
        if options.key:
            headers["Authorization"] = f"Bearer {options.key}"
        secure = self.url.startswith("https:")
        if why := multiplexed.unknown() if secure else "":
            log.warning("%s: HTTP/1.1 is used: %s", self.where, why)
        self._may_share = secure and not why  # HTTP/2 is taken where the server offers it
        self._settings: dict[str, Any] = {
            "base_url": self.url,
            "headers": headers,
            "http2": self._may_share,
            "verify": httpx.create_ssl_context(options.verify),
            "timeout": httpx.Timeout(options.silent_seconds, connect=options.connect_seconds),
            "limits": httpx.Limits(max_connections=1, keepalive_expiry=60.0),
        }
        self._shared: httpx.AsyncClient | None = None  # that of an HTTP/2 connection, for all requests
        self._free: list[httpx.AsyncClient] = []
        self._busy: set[httpx.AsyncClient] = set()
        self._tasks: set[asyncio.Task[None]] = set()

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

    def _let_go(self, client: httpx.AsyncClient) -> None:
        self._busy.discard(client)
        self._spawn(client.aclose())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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
        async with self._request(method, path, content, timeout) as answer:
            return await self._whole(answer)

    @asynccontextmanager
    async def events(self, path: str, body: Any) -> AsyncGenerator[AsyncGenerator[list[bytes]]]:
        """The data of events, as many at a time as came together; leaving ends the request there.

        Raises RemoteError, also while it is read.
        """
        async with self._request("POST", path, msgspec.json.encode(body), None) as answer:
            if not answer.response.is_success:
                await self._whole(answer)
            if answer.response.headers.get("content-type", "").startswith("text/html"):
                raise garbage(self.where, await answer.whole() or b"<html>")
            yield self._events(answer.chunks)

    async def _whole(self, answer: Answer) -> bytes:
        """The body. Raises RemoteError if they refused."""
        response, body = answer.response, await answer.whole()
        if not response.is_success:
            asked = response.request.url.raw_path.decode("ascii", "replace")
            path = asked.removeprefix(urlsplit(self.url).path)
            raise from_answer(self.where, response.status_code, response.headers, body, path)
        return body

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, content: bytes | None, timeout: httpx.Timeout | None
    ) -> AsyncGenerator[Answer]:
        """An answer whose body is still to come. Raises RemoteError, also while it is read."""
        named: dict[str, Any] = {"content": content, "headers": None if content is None else _JSON}
        if timeout is not None:
            named["timeout"] = timeout
        try:
            if self._may_share:
                async with self._beside(method, path, named) as answer:
                    yield answer
                return
            with self._client() as client:
                async with client.stream(method, path, **named) as response:
                    yield Answer(response, body_of(response))
                    if not response.is_closed:  # as it is once it has been read to its end
                        self._let_go(client)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            raise from_transport(self.where, error) from error

    @asynccontextmanager
    async def _beside(self, method: str, path: str, named: Mapping[str, Any]) -> AsyncGenerator[Answer]:
        """As :meth:`_request`, where it may come to share its connection with others."""
        exchange = Exchange()
        task = self._spawn(self._exchange(exchange, method, path, named))
        try:
            response = await exchange.get()
            assert isinstance(response, httpx.Response)
            yield Answer(response, exchange.rest())
        finally:
            if not task.done():
                exchange.leave()
                if exchange.client is None or self._alone(exchange.client):
                    task.cancel()

    async def _exchange(
        self, exchange: Exchange, method: str, path: str, named: Mapping[str, Any]
    ) -> None:  # fmt: skip
        end: Exception | None = None
        try:
            with self._client() as client:
                exchange.client, exchange.spawn = client, self._spawn
                async with client.stream(
                    method, path, extensions={"trace": exchange.watch}, **named
                ) as response:
                    if response.http_version == "HTTP/2" and multiplexed.of(client, self._spawn):
                        self._shared = self._shared or client
                    await exchange.items.put(response)
                    async for chunk in body_of(response):
                        await exchange.items.put(chunk)
                        if exchange.left:
                            break
                    if not response.is_closed and self._alone(client):
                        self._let_go(client)
        except Exception as error:  # theirs whose request it is, if they are still there
            end = error
        await exchange.items.put(end)

    async def speaks_tls(self) -> bool:
        """Whether TLS is spoken at the port, where it was spoken to without."""
        parts, trusting = urlsplit(self.url), httpx.create_ssl_context(verify=False)
        if parts.scheme == "https":
            return False
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, ssl=trusting)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def _events(self, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[list[bytes]]:
        reader = EventReader()
        async for chunk in chunks:
            try:
                events = reader.feed(chunk)
            except ValueError:
                raise garbage(self.where, chunk) from None
            if events:
                yield events

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for client in {*self._free, *self._busy, *filter(None, [self._shared])}:
            await client.aclose()
        await asyncio.gather(*self._tasks, return_exceptions=True)


_JSON = {"Content-Type": "application/json"}

__all__ = ["RemoteError", "Transport"]
