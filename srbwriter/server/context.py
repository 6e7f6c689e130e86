"""One request of one client: its body, its connection, and its answer, whole or streamed.

Knows HTTP and no dialect. Turns "the client went away" into a cancelled generation. For a stream a dialect
gives a writer that turns one batch of events into bytes. Everything that was published since the last look
goes out in one piece, so a busy loop sends fewer, larger pieces instead of falling behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from srbwriter.engine.backend import Backend
from srbwriter.engine.types import Event, Failed, Finished, Request, Text
from srbwriter.server.errors import ApiError, Dialect, bad, from_engine
from srbwriter.server.notifier import Follower
from srbwriter.server.registry import Record
from srbwriter.server.services import Services
from srbwriter.server.settings import Client, ServerSettings
from srbwriter.server.work import PER_BYTE, PER_ENTRY, encode, encode_large, off_loop, parse

T = TypeVar("T")

JSON = "application/json; charset=utf-8"
EVENTS = "text/event-stream; charset=utf-8"
_PER_BIAS = 2e-5  # seconds: one that is a text is made tokens


class ClientGone(Exception):
    """The client closed its connection; there is nobody to answer."""


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(value), status, dict(headers or {}), JSON)


class Context:
    """What a handler is given."""

    def __init__(self, request: HttpRequest, services: Services, dialect: Dialect) -> None:
        self.request = request
        self.services = services
        self.dialect: Dialect = dialect
        self.id: str = request.scope["srbwriter.id"]
        self.client: Client = request.scope["srbwriter.client"]
        self.effort = 0.0  # seconds that reading the body takes, about
        self.chooses = True  # whether a body is for the model that it names, or for the current one
        self._chosen = False  # whether the query has named a model
        self._gone: asyncio.Task[None] | None = None
        self._values: dict[str, Any] | None = None
        self._raw: bytes | None = None  # the body

    @property
    def settings(self) -> ServerSettings:
        return self.services.settings

    @property
    def engine(self) -> Backend:
        return self.services.engine

    @property
    def path(self) -> Mapping[str, str]:
        return self.request.path_params

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    def switch(self, name: str) -> bool:
        """A switch in the query: present and neither 0, false nor no."""
        value = self.query.get(name)
        return value is not None and value.lower() not in ("0", "false", "no")

    async def json(self) -> dict[str, Any]:
        """The body as a JSON object; no body is an empty one. No content type is asked for."""
        if self._values is None:
            self._values = await self.given(await self._body())
        return self._values

    @property
    def sent(self) -> Mapping[str, Any]:
        """The fields of the body, as far as it has been read."""
        return self._values or {}

    async def given(self, raw: bytes) -> dict[str, Any]:
        """The same of a message that came over a WebSocket; it is this context's body from then on."""
        self.effort = len(raw) * PER_BYTE
        value: Any = await off_loop(self.effort, lambda: parse(raw)) if raw.strip() else {}
        if not isinstance(value, dict):
            raise ApiError(400, "the body must be a JSON object")
        self._values = cast("dict[str, Any]", value)
        biases: object = self._values.get("logit_bias")
        if isinstance(biases, dict | list):
            self.effort += _PER_BIAS * len(cast("list[Any]", biases))
        if self.chooses and not self.services.models.alone and not self._goes_on(self._values):
            name = self._values.get("model")
            if name is not None and not isinstance(name, str):  # said before any model is loaded for it
                raise bad("model", "Field 'model': expected text")
            if name or not self._chosen:
                await self.choose(name or "")
        return self._values

    def _goes_on(self, values: Mapping[str, Any]) -> bool:
        """Whether a body goes on from another request's branch, whose model it is for then."""
        parent: Any = values.get("parent")
        if not isinstance(parent, dict):
            return False
        try:
            self.record(str(cast("dict[str, Any]", parent).get("request")))
        except ApiError:
            return False
        return True

    async def choose(self, name: str) -> None:
        """Answer with that model, or with the current one without a name; it stays until all has been sent.

        It is loaded first if need be. Raises ApiError: 404 for a name that is none, and as ``Models.take``.
        """
        models = self.services.models
        if models.alone:
            return
        one = models.named(name)
        self._held.close()
        if one.state == "READY" or self.request.scope["type"] == "websocket":
            await models.take(one)
        else:
            await self._body()  # whoever watches for the client to leave takes what it sends
            try:
                await self.until_gone(models.take(one))
            finally:
                self.close()
                self._gone = None
        self._held.callback(models.release, one)
        self.services, self._chosen = one.services, bool(name)

    async def load_model(self, name: str, *, choose: bool = True) -> None:
        """Load a model for all, as :meth:`.models.Models.load` does. Raises ApiError."""
        self.need_admin("loading a model")
        await self.services.models.load(name, choose=choose)

    async def unload_model(self, name: str = "") -> None:
        """Unload a model, or the current one without a name. Raises ApiError."""
        self.need_admin("unloading a model")
        await self.services.models.unload(name)

    def need_admin(self, what: str) -> None:
        """Raises ApiError (403) for keys that are no admin's, where there are several models."""
        if not self.client.admin and not self.services.models.alone:
            raise ApiError(403, f"{what} concerns all clients: it takes an admin key")

    def bind(self, record: Record) -> Record:
        """Go on with the model that answers ``record``; the record."""
        models = self.services.models
        if not models.alone:
            one = models.of(record)
            models.hold(one)
            self._held.callback(models.release, one)
            self.services = one.services
        return record

    @property
    def _held(self) -> contextlib.ExitStack:
        return self.request.scope["srbwriter.held"]

    async def read(self, work: Callable[[], T], more: float = 0.0) -> T:
        """What ``work`` makes of the body; on a thread when that is large. ``more`` seconds are added."""
        return await off_loop(self.services.asking + self.effort + more, work)

    async def answer(self, seconds: float, make: Callable[[], Any], record: Record | None = None) -> Response:
        """``make``'s value as JSON, the answer of ``record`` if it is one.

        Made and written on a thread when both take so many seconds.
        """
        headers = self.queue(record) if record is not None else None

        def work() -> Response:
            return _Whole(encode_large(make()), 200, headers, JSON)

        return await off_loop(self.services.asking + seconds, work)

    async def value(self) -> Any:
        """The body as JSON of whatever kind; no body is null."""
        raw = await self._body()
        return await off_loop(len(raw) * PER_BYTE, lambda: parse(raw)) if raw.strip() else None

    async def _body(self) -> bytes:
        if self._raw is None:
            self._raw = await self._read_body()
        return self._raw

    async def _read_body(self) -> bytes:
        encoding = self.request.headers.get("content-encoding", "identity")
        if encoding.strip().lower() not in ("identity", ""):
            words = f"the body is encoded as {encoding[:80]}; send it uncompressed, without Content-Encoding"
            raise ApiError(415, words, headers={"Accept-Encoding": "identity"})
        limit = self.settings.max_body
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(min(self.settings.timeout, self.settings.body_seconds)):
                async for chunk in self.request.stream():
                    size += len(chunk)
                    if size > limit:
                        raise ApiError(
                            413, f"the body is larger than {limit} bytes", headers={"Connection": "close"}
                        )
                    chunks.append(chunk)
        except TimeoutError:
            raise ApiError(408, "the body did not arrive in time", headers={"Connection": "close"}) from None
        except ClientDisconnect:
            raise ClientGone from None
        return b"".join(chunks)

    async def until_gone(self, work: Awaitable[T]) -> T:
        """The result of ``work``, which is cancelled when the client leaves first (ClientGone)."""
        if self._gone is None:
            self._gone = asyncio.create_task(_disconnect(self.request.receive))
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def whole(self, record: Record, make: Callable[[], Any], more: float = 0.0) -> Response:
        """``make``'s value as JSON, when all is written; whatever still runs afterwards is cancelled.

        It takes ``more`` seconds to make than the record tells.
        """
        try:
            return await self.until_gone(self._whole(record, make, more))
        finally:
            self.end(record)

    async def _whole(self, record: Record, make: Callable[[], Any], more: float) -> Response:
        with Follower(self.services.notifier, record.generations) as follower:
            await follower.finish()
        return await self.answer(record.effort + more, make, record)

    async def stream(
        self,
        record: Record,
        writer: FrameWriter,
        *,
        after: int = 0,
        media_type: str = EVENTS,
        headers: Mapping[str, str] | None = None,
        own: bool = True,
    ) -> Response:
        """Answer with the frames of a writer, less those of the first ``after`` events.

        What goes wrong before the first frame is still an error of its own. The record ends with the
        connection, unless the client only looks on (``own`` is false).
        """

        out = frames(self, record, writer, after)
        close = partial(self.end, record) if own else self.close
        try:
            first = await self.until_gone(_first(out))
        except BaseException:
            close()
            raise
        assert self._gone is not None
        sent = {
            "content-type": media_type,
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
            **self.queue(record),
            **(headers or {}),
        }
        return _Stream(first, out, sent, self._gone, self.settings.timeout, close)

    async def submit(
        self, requests: Sequence[Request], id: str | None = None, slot: int = -1, *, tag: str = ""
    ) -> Record:
        """Hand requests of this client to the engine; see :meth:`.services.Services.submit`.

        Under an ``id`` of their own they outlive the connection.
        """
        return await self.services.submit(
            requests, self.client, self.dialect, id or self.id, slot, tag=tag, bound=id is None
        )

    def stop_own(self, tag: str = "") -> bool:
        """End what this key asked for from this address; nothing of others, and nothing of the terminal."""
        live = [record for record in self.services.registry.own(self.client, tag) if record.live]
        for record in live:
            cancel(record)
        return bool(live)

    def record(self, id: str) -> Record:
        """A request that this client may see. Raises ApiError (404)."""
        return self.bind(self.services.registry.get(id, self.client))

    def queue(self, record: Record) -> dict[str, str]:
        """The header that says how many requests wait before this one."""
        return {"X-Queue": str(self.services.registry.place(record))}

    def end(self, record: Record) -> None:
        """Nobody reads ``record`` over this connection any more."""
        cancel(record)
        self.close()

    def close(self) -> None:
        if self._gone is not None:
            self._gone.cancel()


def cancel(record: Record) -> None:
    """Stop what nobody reads any more."""
    for generation in record.generations:
        if not generation.done:
            generation.cancel()


async def _first(frames: AsyncGenerator[bytes]) -> bytes:
    return await anext(frames, b"")


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_body(send: Send, body: bytes, *, more: bool) -> None:
    """In pieces: the loop copies each, and waits for clients that read slowly between them."""
    for start in range(0, max(len(body), 1), _PIECE):
        end = start + _PIECE
        rest = more or end < len(body)
        await send({"type": "http.response.body", "body": body[start:end], "more_body": rest})


_PIECE = 256 * 1024  # bytes


class _Whole(Response):
    """An answer that may be large."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await _send_body(send, bytes(self.body), more=False)


class _Stream(Response):
    """Sends frames as they come, and stops at once when the client leaves or stops reading."""

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


def error_frame(context: Context, error: ApiError) -> bytes:
    return b"data: " + encode(error.body(context.dialect)) + b"\n\n"


async def frames(
    context: Context, record: Record, writer: FrameWriter, after: int = 0
) -> AsyncGenerator[bytes]:
    """The frames of a record, less its first ``after`` events.

    An error before the first frame is raised, a later one is a frame. A request that waits for others tells
    its place a second later, and whenever that changes.
    """
    begun, quiet, told = False, 0.0, -1
    look = min(1.0, context.settings.ping_seconds)
    with Follower(context.services.notifier, record.generations, after) as follower:
        async for news in follower.batches(look):
            failure = next((event.error for _, event in news if isinstance(event, Failed)), None)
            if failure is not None and not begun:
                break
            if news:
                quiet = 0.0
                out = await off_loop(_seconds(record, news), partial(writer.batch, news))
            elif record.waiting and (place := context.services.registry.place(record)) != told:
                told, out = place, writer.waiting(place)
            else:
                quiet += look
                silent = quiet >= context.settings.ping_seconds
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
