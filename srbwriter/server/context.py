"""One request of one client: its body, its connection, and its answer, whole or streamed.

Knows HTTP and no dialect. Turns "the client went away" into a cancelled generation.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch
from srbwriter.engine.types import Failed, Finished, Request, Text
from srbwriter.server.body import Fields
from srbwriter.server.errors import ApiError, Dialect, from_engine
from srbwriter.server.registry import Record
from srbwriter.server.services import Services
from srbwriter.server.settings import Client
from srbwriter.server.streams import (
    JSON,
    ClientGone,
    Follower,
    News,
    Reply,
    StreamResponse,
    WholeResponse,
    cancel,
)
from srbwriter.server.work import PER_BYTE, PER_ENTRY, encode, encode_large, off_loop, read_json

if TYPE_CHECKING:
    from srbwriter.engine.embedding import Embedding, Pooling  # loads llama.cpp

T = TypeVar("T")

_PER_BIAS = 2e-5  # seconds: one that is a text is made tokens


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(value), status, dict(headers or {}), JSON)


class Context:
    """One HTTP request, as handlers get it. Work for its client is cancelled when the client disconnects."""

    def __init__(self, request: HttpRequest, services: Services, dialect: Dialect) -> None:
        self.request, self.services, self.settings = request, services, services.settings
        self.dialect = dialect
        self.id: str = request.scope["srbwriter.id"]
        self.client: Client = request.scope["srbwriter.client"]
        self.effort = 0.0  # seconds that reading the body takes, about
        self._values: dict[str, Any] | None = None
        self._gone: asyncio.Task[None] | None = None  # ends when the client disconnects

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
        """Whether a query parameter is present and neither 0, false nor no."""
        value = self.query.get(name)
        return value is not None and value.lower() not in ("0", "false", "no")

    async def json(self) -> dict[str, Any]:
        """Return the body as a JSON object; an absent body is an empty one.

        The content type does not matter.
        """
        if self._values is None:
            self._values = await self.given(await self._read_body())
        return self._values

    async def fields(self) -> Fields:
        return Fields(await self.json())

    @property
    def sent(self) -> Mapping[str, Any]:
        """The fields of the body, once it has been read."""
        return self._values or {}

    async def given(self, raw: bytes) -> dict[str, Any]:
        """Parse a WebSocket message, which is this context's body from then on."""
        self.effort = len(raw) * PER_BYTE
        value: Any = await read_json(raw) if raw.strip() else {}
        if not isinstance(value, dict):
            raise ApiError(400, "the body must be a JSON object")
        self._values = cast("dict[str, Any]", value)
        biases: object = self._values.get("logit_bias")
        if isinstance(biases, dict | list):
            self.effort += _PER_BIAS * len(cast("list[Any]", biases))
        return self._values

    def parent(self) -> Branch | None:
        """Return the parent branch, which the body names as ``{"request": id, "branch": number}``, or None.

        Raises ApiError (404).
        """
        given = Fields(self.sent).mapping("parent")
        if given is None:
            return None
        parent = Fields(given)
        record = self.record(parent.text("request"))
        self.effort += (record.prompt_tokens + record.written) * PER_ENTRY  # to make its text a prompt
        return record.branch(parent.integer("branch", 0))

    async def read(self, reader: Callable[[Fields, Services], T], more: float = 0.0) -> T:
        """Return what ``reader`` makes of the body.

        Runs on a thread when the body is large, or when reading takes ``more`` seconds.
        """
        fields, services = await self.fields(), self.services
        return await off_loop(self.effort + more, lambda: reader(fields, services))

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

    async def reply(
        self, requests: Sequence[Request], reply: Reply, *, slot: int = -1, tag: str = ""
    ) -> Response:
        """Submit requests and return their answer, streamed or whole. Raises ApiError."""
        record = await self.submit(requests, slot=slot, tag=tag)
        reply.begin(record)
        return await (self.stream(record, reply) if reply.stream else self.whole(record, reply.whole))

    async def submit(
        self, requests: Sequence[Request], id: str | None = None, slot: int = -1, *, tag: str = ""
    ) -> Record:
        """Hand requests of this client to the engine; see :meth:`.services.Services.submit`.

        Under an ``id`` of their own they outlive the connection.
        """
        return await self.services.submit(
            requests, self.client, id or self.id, slot, tag=tag, bound=id is None, busy=self.dialect.busy
        )

    async def embed(
        self, texts: Sequence[str | list[int]], normalize: int = 2, pooling: Pooling | None = None
    ) -> list[Embedding]:
        """Return vectors of texts or token ids. Raises ApiError and EngineError."""
        lane, size = self.engine.embedder, sum(map(len, texts))
        work = await off_loop(size * PER_BYTE, lambda: lane.embed(texts, pooling, normalize))
        return await self.until_gone(asyncio.wrap_future(work))

    def stop_own(self, tag: str = "") -> bool:
        """Cancel the requests of this key from this address; return whether any was live."""
        live = [record for record in self.services.registry.own(self.client, tag) if record.live]
        for record in live:
            cancel(record)
        return bool(live)

    def record(self, id: str) -> Record:
        """Return a request that this client may see. Raises ApiError (404)."""
        return self.services.registry.get(id, self.client)

    # ---- answering

    async def until_gone(self, work: Awaitable[T]) -> T:
        """Return the result of ``work``.

        Cancels it and raises ClientGone when the client disconnects first.
        """
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
        """Wait until all is written, then answer with the value of ``make`` as JSON; cancel what still runs.

        ``more`` is the time in seconds that ``make`` takes beyond ``record.effort``.
        """
        try:
            with Follower(self.services.notifier, record.generations) as follower:
                await self.until_gone(follower.finish())
        finally:
            self.end(record)
        return await self.answer(record.effort + more, make, record)

    async def stream(self, record: Record, reply: Reply, *, after: int = 0, own: bool = True) -> Response:
        """Answer with the frames of a record, without those of its first ``after`` events.

        An error before the first frame is an ordinary error response. The record is cancelled with the
        connection, unless ``own`` is false because the client only watches it.
        """
        out = self.frames(record, reply, after)
        close = partial(self.end, record) if own else self.close
        try:
            first = await self.until_gone(anext(out, b""))
        except BaseException:
            close()
            raise
        assert self._gone is not None
        sent = {
            "cache-control": "no-cache", "x-accel-buffering": "no", **self.queue(record), **reply.headers
        }  # fmt: skip
        return StreamResponse(first, out, sent, self._gone, self.settings.timeout, close)

    async def frames(self, record: Record, reply: Reply, after: int = 0) -> AsyncGenerator[bytes]:
        """Yield the frames of a record, without those of its first ``after`` events.

        An error before the first frame is raised, a later one is a frame. A request in the queue reports its
        place after a second, and whenever the place changes.
        """
        begun, quiet, reported = False, 0.0, -1
        ping_seconds = self.settings.ping_seconds
        look = min(1.0, ping_seconds)
        with Follower(self.services.notifier, record.generations, after) as follower:
            async for news in follower.batches(look):
                failure = next((event.error for _, event in news if isinstance(event, Failed)), None)
                if failure is not None and not begun:
                    break
                if news:
                    quiet = 0.0
                    out = await off_loop(_seconds(record, news), partial(reply.batch, news))
                elif record.waiting and (now := self.services.registry.place(record)) != reported:
                    reported, out = now, reply.waiting(now)
                else:
                    quiet += look
                    silent = quiet >= ping_seconds
                    quiet, out = (0.0, reply.ping) if silent else (quiet, b"")
                if out:
                    begun = True
                    yield out
                if failure is not None:
                    break
        error = next((g.error for g in record.generations if g.error is not None), None)
        if error is None:
            yield reply.end()
        elif begun:
            yield reply.error(from_engine(error))
        else:
            raise from_engine(error)

    async def answer(self, seconds: float, make: Callable[[], Any], record: Record | None = None) -> Response:
        """Answer with the value of ``make`` as JSON; ``record`` adds its place in the queue to the headers.

        Calls ``make`` and encodes on a thread where that takes long; ``seconds`` is the estimate.
        """
        headers = self.queue(record) if record is not None else None

        def encode_answer() -> Response:
            return WholeResponse(encode_large(make()), 200, headers, JSON)

        return await off_loop(seconds, encode_answer)

    def queue(self, record: Record) -> dict[str, str]:
        """Return the header with the number of requests that wait before this one."""
        return {"X-Queue": str(self.services.registry.place(record))}

    def end(self, record: Record) -> None:
        """Cancel ``record`` and stop watching the connection."""
        cancel(record)
        self.close()

    def close(self) -> None:
        if self._gone is not None:
            self._gone.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _seconds(record: Record, news: News) -> float:
    """Estimate the seconds that encoding the frames of some events takes."""
    entries = 0
    for number, event in news:
        entries += 3
        if isinstance(event, Text):
            entries += sum(2 + 2 * len(known.top) for known in event.logprobs)
        elif isinstance(event, Finished):  # some dialects end with the prompt once more
            entries += len(record.generations[number].prompt_ids) // 4
    return entries * PER_ENTRY
