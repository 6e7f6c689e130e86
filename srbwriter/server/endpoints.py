"""Endpoints as rows: method, paths, handler, body; and their OpenAPI description.

Routing, the OpenAPI description and the list of paths open without a key are all made from these rows. A
``Leaf`` is what a dialect, the pages or the line protocol add to the server.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from srbwriter.engine.types import EngineError
from srbwriter.server.body import ALIASES
from srbwriter.server.context import Context, json_response
from srbwriter.server.errors import LLAMACPP, ApiError, Dialect, from_engine
from srbwriter.server.services import Services
from srbwriter.server.streams import ClientGone
from srbwriter.version import __version__

log = logging.getLogger(__name__)

Handler = Callable[[Context], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one or more paths.

    ``body`` is the JSON schema of the request body, ``query`` the schemas of query parameters by name.
    ``public`` paths are open without a key. Several leaves may have a row for one path: the first whose
    ``claims`` returns true answers, or else the one without ``claims``. A row with ``gives_way`` is left out
    where the server serves a folder.
    """

    method: Literal["GET", "POST", "DELETE", "PATCH"]
    paths: tuple[str, ...]
    handler: Handler
    dialect: Dialect
    summary: str
    title: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    public: bool = False
    claims: Callable[[Context], Awaitable[bool]] | None = None
    gives_way: bool = False


def lacks(names: Collection[str]) -> Callable[[Context], Awaitable[bool]]:
    """Return a claim on bodies that have none of these fields."""

    async def claims(context: Context) -> bool:
        return (await context.json()).keys().isdisjoint(names)

    return claims


def routes_of(rows: Iterable[Endpoint], services: Services) -> list[Route]:
    """One route for each method and path."""
    return [
        Route(path, _answering(group, services), methods=[method])
        for (method, path), group in _by_path(rows).items()
    ]


def _by_path(rows: Iterable[Endpoint]) -> dict[tuple[str, str], list[Endpoint]]:
    """The rows of each method and path, that which answers everything else last."""
    groups: dict[tuple[str, str], list[Endpoint]] = {}
    for row in rows:
        for path in row.paths:
            groups.setdefault((row.method, path), []).append(row)
    return {where: sorted(group, key=lambda row: row.claims is None) for where, group in groups.items()}


def _answering(group: Sequence[Endpoint], services: Services) -> Callable[[Request], Awaitable[Response]]:
    *claiming, usual = group

    async def answer(request: Request) -> Response:
        context = Context(request, services, usual.dialect)
        try:
            row = usual
            for other in claiming:
                if other.claims is not None and await other.claims(context):
                    row = other
                    break
            context.dialect = row.dialect
            return await row.handler(context)
        except (ClientGone, ClientDisconnect):
            return Response(status_code=499)  # nobody reads it; the log shows it
        except Exception as error:
            return error_response(error, context.dialect, context.sent)

    return answer


Row = Callable[..., Endpoint]


def rows_of(dialect: Dialect, title: str) -> Row:
    """Return a function that makes rows under ``title``: ``row("GET /a /b", handler, summary, body=…)``."""

    def row(where: str, handler: Handler, summary: str, **more: Any) -> Endpoint:
        method, *paths = where.split()
        return Endpoint(cast("Any", method), tuple(paths), handler, dialect, summary, title, **more)

    return row


@dataclass(frozen=True, slots=True)
class Socket:
    """A path on which clients open WebSockets."""

    path: str
    handler: Callable[[Context, WebSocket], Awaitable[None]]

    def route(self, services: Services) -> WebSocketRoute:
        async def answer(socket: WebSocket) -> None:
            context = Context(cast("Request", socket), services, LLAMACPP)
            try:
                with services.open_socket(context.client) as fits:
                    if fits:
                        await self.handler(context, socket)
                    else:
                        await socket.accept()  # closed before, it would be a 403 without words
                        await socket.close(1013, "too many WebSockets are open")
            except (WebSocketDisconnect, TimeoutError):
                pass  # it left, or stopped reading
            except Exception as error:
                log.error("unforeseen error on a WebSocket", exc_info=error)

        return WebSocketRoute(self.path, answer)


class Companion(Protocol):
    """A service of a leaf that runs beside the HTTP routes, on the server's loop."""

    def open(self) -> AbstractAsyncContextManager[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """What a dialect, the pages or the line protocol add to the server.

    ``prefixes`` are dialects for the errors of unknown paths, by the beginning of the path. ``beside`` makes
    a companion from the services, the listening sockets for lines and the maximum number of their clients.
    """

    rows: tuple[Endpoint, ...] = ()
    sockets: tuple[Socket, ...] = ()
    prefixes: Mapping[str, Dialect] = field(default_factory=dict[str, Dialect])
    beside: Callable[[Services, Sequence[socket.socket], int], Companion] | None = None


def respond(make: Callable[[Context], Any], *, ready: bool = False) -> Handler:
    """Return a handler that answers with a value and reads no body.

    ``ready``: it answers 503 while the model is loading.
    """

    async def handler(context: Context) -> Response:
        if ready:
            _ = context.engine
        return json_response(make(context))

    return handler


def as_api_error(error: Exception) -> ApiError:
    """Return the response to an error. Only an internal error is a 500, and it is logged."""
    if not isinstance(error, (ApiError, EngineError)):
        log.error("unforeseen error while answering", exc_info=error)
    return from_engine(error)


def respell_field(error: ApiError, sent: Mapping[str, Any]) -> ApiError:
    """Return the error with the client's spelling of the field; the engine knows one name of each.

    ``sent`` are the fields of the body.
    """
    name = error.field
    if name is not None and sent.get(name) is None:
        spellings = (*ALIASES.get(name, ()), *_OTHER_NAMES.get(name, ()))
        error.field = next((other for other in spellings if sent.get(other) is not None), name)
        error.message = error.message.replace(f"'{name}'", f"'{error.field}'", 1)
    return error


_OTHER_NAMES = {
    "next_ids": ("ids",), "prompt": ("input", "content"),
    "json_schema": ("response_format",),
}  # fmt: skip
"""Other names of a field that hold for some paths only or wrap it, and so are no spellings of it."""


def error_response(error: Exception, dialect: Dialect, sent: Mapping[str, Any]) -> Response:
    """Return an error as a response in ``dialect``, to a client that ``sent`` these fields."""
    problem = respell_field(as_api_error(error), sent)
    return json_response(dialect.body(problem), problem.status, problem.headers)


_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_ERRORS = {
    "400": {"description": "a field means nothing; the answer names it"},
    "401": {"description": "a key is needed"},
    "403": {"description": "the Host or Origin header is not allowed"},
    "404": {"description": "there is no such thing"},
    "409": {"description": "the slot that is to be restored is in use"},
    "413": {"description": "the body is too large"},
    "415": {"description": "the body is compressed"},
    "429": {"description": "too many requests are being answered"},
    "501": {"description": "this server or its model cannot do that"},
    "503": {"description": "the model is being loaded, or too many requests are being answered"},
}


def description(leaves: Iterable[Leaf]) -> dict[str, Any]:
    """The OpenAPI 3.1 description of all rows."""
    leaves = list(leaves)
    rows = [row for leaf in leaves for row in leaf.rows]
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), group in _by_path(rows).items():
        plain = _PARAMETER.sub(r"{\1}", path)
        paths.setdefault(plain, {})[method.lower()] = _operation(group, path)
    return {
        "openapi": "3.1.0",
        "info": {"title": "srbwriter", "version": __version__, "summary": "Many branches of a text at once"},
        "tags": [{"name": title} for title in dict.fromkeys(row.title for row in rows)],
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(group: Sequence[Endpoint], path: str) -> dict[str, Any]:
    row = group[-1]
    in_path: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(path)
    ]
    in_query = [{"name": name, "in": "query", "schema": dict(schema)} for name, schema in row.query.items()]
    operation: dict[str, Any] = {
        "operationId": f"{row.method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', path)}",
        "summary": "; ".join(one.summary for one in reversed(group)),
        "tags": [row.title],
        "parameters": in_path + in_query,
        "responses": {"default": {"description": "the answer"}, **_ERRORS},
    }
    if row.body is not None:
        content = {"application/json": {"schema": dict(row.body)}}
        operation["requestBody"] = {"required": "required" in row.body, "content": content}
    if not row.public:
        operation["security"] = [{}, {"key": []}]
    return operation
