"""One HTTP request of one client: its body, its connection, and its answer, whole or streamed.

Knows HTTP and no dialect. Turns "the client went away" into a cancelled request. A dialect is an object of
:class:`Dialect`, and each of its paths an :class:`Endpoint`; routes, the OpenAPI description and the list of
paths open without a key are all made from these.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from srbwriter.engine.backend import Backend
from srbwriter.engine.limits import check_prompt
from srbwriter.engine.types import Failed, Request

from .answer import JSON, Answer, encode
from .auth import Client
from .body import SPELLINGS, Body
from .errors import ApiError, as_api_error, bad, llamacpp_error, respell_field
from .registry import RequestRecord
from .run import LARGE, Follower, Services, on_thread

T = TypeVar("T")


DEPTH = 100
"""Lists and objects of JSON within each other."""

CONTAINERS, NUMBERS = 100_000, 1_500_000
"""Lists and objects of one JSON text, and numbers in its lists: freeing them keeps everybody waiting."""


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(value), status, dict(headers or {}), JSON)


def parse_json(raw: bytes) -> Any:
    """Parse a body, up to the depth and size that are allowed. Raises ApiError (400)."""
    containers = raw.count(b"[") + raw.count(b"{")
    if containers > CONTAINERS or raw.count(b",") > NUMBERS:
        raise ApiError(400, f"the body has more than {CONTAINERS} lists and objects or {NUMBERS} numbers")
    try:
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # Half a surrogate pair, which JSON can write and UTF-8 cannot, becomes U+FFFD.
            text = json.dumps(json.loads(raw), ensure_ascii=False, allow_nan=False)
            value = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None
    if containers > DEPTH and too_deep(value):
        raise ApiError(400, f"the body is nested too deeply: more than {DEPTH} lists and objects")
    return value


def too_deep(value: object) -> bool:
    """Whether parsed JSON has more than ``DEPTH`` lists and objects within each other."""
    level = _parts([value])
    for _ in range(DEPTH):
        level = [inner for outer in level for inner in _parts(outer)]
    return bool(level)


def _parts(value: object) -> list[object]:
    """Return the lists and objects within a list or object."""
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    return [item for item in inner if isinstance(item, dict | list)]


# ---- one request


class Call:
    """One HTTP request, as handlers get it. Work for its client is cancelled when the client disconnects."""

    def __init__(self, request: HttpRequest, services: Services, dialect: Dialect) -> None:
        self.request, self.services, self.settings = request, services, services.settings
        self.dialect = dialect
        self.id: str = request.scope["srbwriter.id"]
        self.client: Client = request.scope["srbwriter.client"]
        self.body = Body({})
        self.large = False  # whether its body is: it is read on a thread then

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

    async def receive(self) -> None:
        """Read the body, which becomes ``body``. The content type does not matter. Raises ApiError."""
        encoding = self.request.headers.get("content-encoding", "identity")
        if encoding.strip().lower() not in ("identity", ""):
            words = f"the body is encoded as {encoding[:80]}; send it uncompressed, without Content-Encoding"
            raise ApiError(415, words, headers={"Accept-Encoding": "identity"})
        limit, size = self.settings.max_body, 0
        chunks: list[bytes] = []
        closing = {"Connection": "close"}
        too_large = ApiError(413, f"the body is larger than {limit} bytes", headers=closing)
        if int(self.request.headers.get("content-length", 0)) > limit:  # before any of it comes, or does not
            raise too_large
        try:
            async with asyncio.timeout(min(self.settings.timeout, self.settings.body_seconds)):
                async for chunk in self.request.stream():
                    size += len(chunk)
                    if size > limit:
                        raise too_large
                    chunks.append(chunk)
        except TimeoutError:
            raise ApiError(408, "the body did not arrive in time", headers=closing) from None
        await self.parse(b"".join(chunks))

    async def parse(self, raw: bytes) -> None:
        """Take a JSON object as the body; nothing at all is an empty one. Raises ApiError (400)."""
        self.large = len(raw) > LARGE
        value: Any = await self.work(lambda: parse_json(raw)) if raw.strip() else {}
        if not isinstance(value, dict):
            raise ApiError(400, "the body must be a JSON object")
        self.body = Body(cast("dict[str, Any]", value))

    async def work(self, do: Callable[[], T], *, thread: bool = False) -> T:
        """Return what ``do`` makes of the body: on a thread where that is large, or if ``thread``."""
        return await on_thread(do) if thread or self.large else do()

    # ---- requests of the engine

    async def submit(self, requests: Sequence[Request], *, tag: str = "") -> RequestRecord:
        """Hand requests of this client to the engine; see :meth:`.run.Services.submit`."""
        if self.body.integer("best_of", requests[0].n) != requests[0].n:
            words = f"it can only be n, which is {requests[0].n}: ask for n, and choose among them"
            raise bad("best_of", words)
        return await self.services.submit(
            requests, self.client, self.id, tag=tag, busy=self.dialect.busy, large=self.large
        )

    async def reply(self, requests: Sequence[Request], answer: Answer, *, tag: str = "") -> Response:
        """Submit requests and return their answer, streamed or whole. Raises ApiError."""
        record = await self.submit(requests, tag=tag)
        answer.begin(record)
        return await (self.stream(record, answer) if answer.stream else self.whole(record, answer.answer))

    def stop_own(self, tag: str = "") -> bool:
        """Cancel the requests of this key from this address; return whether any was live."""
        live = [record for record in self.services.registry.own(self.client, tag) if record.live]
        for record in live:
            record.cancel()
        return bool(live)

    def record(self) -> RequestRecord:
        """Return the request of the path, which runs and which this client may see. Raises ApiError (404)."""
        return self.services.registry.get(self.path["id"], self.client)

    async def tokenize(self, text: str, *, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        engine = self.engine
        check_prompt("content", len(text))
        return await self.work(lambda: engine.tokenize(text, add_bos=add_bos, parse_special=parse_special))

    # ---- answering

    async def until_gone(self, work: Awaitable[T]) -> T:
        """Return the result of ``work``. Raises ClientDisconnect when the client leaves first."""
        gone = asyncio.ensure_future(_until_disconnect(self.request.receive))
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientDisconnect
            return task.result()
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def whole(self, record: RequestRecord, make: Callable[[], Any]) -> Response:
        """Wait until all is written, then answer with the value of ``make`` as JSON."""
        await self.until_gone(self.services.finish(record))
        if (error := record.error) is not None:
            raise as_api_error(error)
        return await self.work(lambda: json_response(make()), thread=record.size > LARGE)

    async def stream(self, record: RequestRecord, answer: Answer) -> Response:
        """Answer with the frames of a record, which is cancelled with the connection.

        An error before the first frame is an ordinary error response.
        """
        frames = self.frames(record, answer)

        async def all_frames() -> AsyncGenerator[bytes]:
            yield first
            async for frame in frames:
                yield frame

        async def close() -> None:
            record.cancel()
            await frames.aclose()

        try:
            first = await self.until_gone(anext(frames, b""))
        except BaseException:
            await close()
            raise
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no", **answer.headers}
        response = _Stream(all_frames(), 200, headers)
        response.close = close
        return response

    async def frames(self, record: RequestRecord, answer: Answer) -> AsyncGenerator[bytes]:
        """Yield the frames of a record. An error before the first frame is raised, a later one is a frame."""
        begun = False
        with Follower(self.services.notifier, record.generations) as follower:
            async for news in follower.batches(self.settings.ping_seconds):
                failed = any(isinstance(event, Failed) for _, event in news)
                if failed and not begun:
                    break
                out = answer.frames(news) if news else answer.ping
                if out:
                    begun = True
                    yield out
                if failed:
                    break
        if (error := record.error) is None:
            yield answer.end()
        elif begun:
            yield answer.error(as_api_error(error))
        else:
            raise as_api_error(error)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Stream(StreamingResponse):
    """Stop when the client disconnects, and ``close`` at the end."""

    close: Callable[[], Awaitable[None]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.close()


# ---- dialects and their endpoints

Handler = Callable[[Call], Awaitable[Any] | Any]
"""Answers a call with a response, or with the JSON value of one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one or more paths: ``GET /a /b``.

    ``body`` and ``query`` name the fields of the body and the query with their types: ``prompt! n:integer``,
    where ``!`` marks what has to be there and ``+`` stands for all parameters. ``public`` paths are open
    without a key. Several dialects may have an endpoint for one path: the first whose ``claims`` returns true
    answers, or else the one without ``claims``. One with ``gives_way`` is left out where the server serves a
    folder.
    """

    where: str
    handler: Handler
    summary: str
    body: str = ""
    query: str = ""
    public: bool = False
    claims: Callable[[Call], bool] | None = None
    gives_way: bool = False

    @property
    def method(self) -> str:
        return self.where.split()[0]

    @property
    def paths(self) -> list[str]:
        return self.where.split()[1:]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One family of clients: their paths, the JSON of their errors, the status for a server that is busy.

    Errors of unknown paths that begin with one of ``prefixes`` have its form.
    """

    title: str
    endpoints: Sequence[Endpoint] = ()
    errors: Callable[[ApiError], dict[str, Any]] = llamacpp_error
    busy: int = 503
    prefixes: tuple[str, ...] = ()


def answering(
    group: Sequence[tuple[Dialect, Endpoint]], services: Services
) -> Callable[[HttpRequest], Awaitable[Response]]:
    """Return what answers a path that one or several endpoints share: the last, unless another claims it."""

    async def answer(request: HttpRequest) -> Response:
        call = Call(request, services, group[-1][0])
        try:
            if request.method == "POST":
                await call.receive()
            claimed = (one for one in group if one[1].claims and one[1].claims(call))
            dialect, endpoint = next(claimed, group[-1])
            call.dialect = dialect
            value = endpoint.handler(call)
            value = await value if inspect.isawaitable(value) else value
            return value if isinstance(value, Response) else json_response(value)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it; the log shows it
        except Exception as error:
            problem = as_api_error(error)
            respell_field(problem, call.body.values, SPELLINGS)
            return json_response(call.dialect.errors(problem), problem.status, problem.headers)

    return answer
