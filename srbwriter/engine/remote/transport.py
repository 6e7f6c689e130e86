"""HTTP to one address: JSON for questions, events for branches. Every failure comes out as a RemoteError."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import msgspec

from srbwriter import __version__

from .options import RemoteOptions, address, shown
from .problems import RemoteError, from_answer, from_transport, garbage
from .sse import EventReader

logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write a line for every request

_ANSWER_SECONDS = 30.0  # a question may take; branches may take as long as they like between two tokens


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
        self._free: list[httpx.AsyncClient] = []
        self._busy: set[httpx.AsyncClient] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @contextmanager
    def _client(self) -> Generator[httpx.AsyncClient]:
        """One connection, for one request. A pool of httpx looks at each connection before each request.

        Where the answer is not read to its end the connection goes: httpx may think it in use for ever.
        """
        client = self._free.pop() if self._free else httpx.AsyncClient(**self._settings)
        self._busy.add(client)
        try:
            yield client
        except BaseException:
            self._let_go(client)
            raise
        finally:
            if client in self._busy:
                self._busy.discard(client)
                self._free.append(client)

    def _let_go(self, client: httpx.AsyncClient) -> None:
        self._busy.discard(client)
        closing = asyncio.get_running_loop().create_task(client.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

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
        try:
            content = msgspec.json.encode(body)
            with self._client() as client:
                async with client.stream("POST", path, content=content, headers=_JSON) as answer:
                    if not answer.is_success:
                        data = await answer.aread()
                        raise from_answer(self.where, answer.status_code, answer.headers, data)
                    yield self._events(answer)
                    if not answer.is_closed:  # as it is once it has been read to its end
                        self._let_go(client)
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise from_transport(self.where, error) from error

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
        for client in (*self._free, *self._busy):
            await client.aclose()


_JSON = {"Content-Type": "application/json"}

__all__ = ["RemoteError", "Transport"]
