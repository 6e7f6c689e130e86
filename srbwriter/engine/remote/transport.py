"""HTTP to one address: JSON for questions, events for branches. Every failure is raised as a RemoteError."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from srbwriter.version import __version__

from .options import RemoteOptions, address, shown
from .problems import from_answer, from_transport, garbage

logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write a line for every request

_OTHERS = (b":", b"event:", b"id:", b"retry:")
_MOST = 16 << 20  # bytes of one event: more than any answer has
_ANSWER_SECONDS = 30.0  # a question may take; branches may take as long as they like between two tokens
_HANDSHAKE_SECONDS = 3.0


class EventReader:
    """Splits a stream into the data of its server-sent events (the HTML standard, section 9.2.6).

    Comments, names and numbers are passed over.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that end in ``chunk``.

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


class Transport:
    """The connections to one address, of HTTP/1.1. To be used on one event loop."""

    def __init__(self, url: str, options: RemoteOptions) -> None:
        self.url = address(url)
        self.where = shown(self.url)
        headers = {"User-Agent": f"srbwriter/{__version__}", "Accept-Encoding": "identity"}
        if options.key:
            headers["Authorization"] = f"Bearer {options.key}"
        self._connect_seconds = options.connect_seconds
        self._client = httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            verify=httpx.create_ssl_context(options.verify),
            timeout=httpx.Timeout(options.silent_seconds, connect=options.connect_seconds),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=60.0),
        )

    async def ask(
        self, method: str, path: str, body: Any = None, seconds: float = _ANSWER_SECONDS
    ) -> Any:  # fmt: skip
        """Return the JSON of an answer. Raises RemoteError."""
        data = await self.read(method, path, body, seconds)
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise garbage(self.where, data) from None

    async def read(
        self, method: str, path: str, body: Any = None, seconds: float = _ANSWER_SECONDS
    ) -> bytes:  # fmt: skip
        """Return the body of an answer. Raises RemoteError."""
        timeout = httpx.Timeout(seconds, connect=self._connect_seconds)
        async with self._request(method, path, body, timeout=timeout) as response:
            data = await self._body(response)
            self._check_status(response, data)
            return data

    @asynccontextmanager
    async def events(self, path: str, body: Any) -> AsyncGenerator[AsyncGenerator[list[bytes]]]:
        """Send a request for events; gives the data of those that came together, as a list.

        Leaving before the end closes the connection, which ends the request over there. Raises RemoteError,
        also while the events are read.
        """
        async with self._request("POST", path, body) as response:
            if not response.is_success:
                self._check_status(response, await self._body(response))
            if response.headers.get("content-type", "").startswith("text/html"):
                raise garbage(self.where, await self._body(response) or b"<html>")
            yield self._events(response)

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: Any, **options: Any
    ) -> AsyncGenerator[httpx.Response]:
        """Send a request; its answer is still to be read. Raises RemoteError, also while it is read."""
        if body is not None:
            options |= {"content": msgspec.json.encode(body), "headers": {"Content-Type": "application/json"}}
        try:
            async with self._client.stream(method, path, **options) as response:
                yield response
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            raise from_transport(self.where, error) from error

    async def _body(self, response: httpx.Response) -> bytes:
        return b"".join([chunk async for chunk in _chunks(response)])

    def _check_status(self, response: httpx.Response, body: bytes) -> None:
        """Raise RemoteError if the server refused."""
        if not response.is_success:
            asked = response.request.url.raw_path.decode("ascii", "replace")
            path = asked.removeprefix(urlsplit(self.url).path)
            raise from_answer(self.where, response.status_code, response.headers, body, path)

    async def _events(self, response: httpx.Response) -> AsyncGenerator[list[bytes]]:
        reader = EventReader()
        async for chunk in _chunks(response):
            try:
                events = reader.feed(chunk)
            except ValueError:
                raise garbage(self.where, chunk) from None
            if events:
                yield events

    async def speaks_tls(self) -> bool:
        """Whether TLS is spoken at the port, where it was spoken to without."""
        parts = urlsplit(self.url)
        if parts.scheme == "https":
            return False
        return await asyncio.to_thread(_handshake, parts.hostname or "", parts.port or 80)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def _handshake(host: str, port: int) -> bool:
    """Whether a port answers to the beginning of TLS.

    With sockets that wait: asyncio keeps the connection of a handshake that was broken off for half a minute.
    """
    trusting = httpx.create_ssl_context(verify=False)
    try:
        with (
            socket.create_connection((host, port), _HANDSHAKE_SECONDS) as plain,
            trusting.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except (OSError, ValueError):  # ssl's errors are OSErrors
        return False


def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    """Give the body's bytes as they come, unpacked if the server packed them though it was asked not to."""
    return response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()
