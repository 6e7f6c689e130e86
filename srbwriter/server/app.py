"""The application: the rows of every dialect on one Starlette, behind one gate.

The gate is plain ASGI, because every streamed frame passes through it: it checks host, key and origin, and
adds ids and CORS headers. It logs method, path, status and time; never a body, a query or a header.
Starlette rather than FastAPI, because clients of these dialects send nulls, unknown keys and numbers as text
that a validating layer would refuse in an error shape none of them reads.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import re
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.version import __version__

from . import page
from .auth import Client, Guard
from .body import OF_DIALECTS
from .dialects import exllama, kobold, llamacpp, ollama, openai, srb, webui
from .errors import ApiError
from .http import Dialect, Row, answering, json_response
from .lines import LineServer
from .prompts import read_template
from .registry import new_id
from .run import Services
from .settings import ServerSettings, check_files

log = logging.getLogger(__name__)
access = logging.getLogger("srbwriter.server.access")

DIALECTS: tuple[Dialect, ...] = (
    srb.DIALECT,
    openai.DIALECT,
    llamacpp.DIALECT,
    kobold.DIALECT,
    webui.DIALECT,
    webui.OLDER,
    exllama.DIALECT,
    ollama.DIALECT,
    page.DIALECT,
)
"""Every dialect. Where several have a row for one path, those before are asked first."""


def build_app(services: Services, lines: Sequence[socket.socket] = (), most_lines: int = 0) -> ASGIApp:
    """Return the ASGI application of one server, for one event loop.

    The line protocol is spoken on the listening sockets of ``lines``, to ``most_lines`` clients at once.
    Sockets may be appended until the application starts.
    """
    settings = services.settings
    check_files(settings)
    services.chat_template = read_template(settings)
    services.openapi = describe(DIALECTS)
    groups = {
        where: rows
        for where, group in rows_by_path(DIALECTS).items()
        if (rows := [one for one in group if not (one[1].gives_way and settings.static_path)])
    }
    routes = [
        Route(path, answering(group, services), methods=[method]) for (method, path), group in groups.items()
    ]
    public = {path for (_, path), group in groups.items() if all(row.public for _, row in group)}
    sockets = [
        WebSocketRoute(path, partial(answer, services=services)) for path, answer in webui.SOCKETS.items()
    ]
    guarded = [one.path_regex for one in (*routes, *sockets) if one.path not in public]
    files = (
        [Mount("/", StaticFiles(directory=settings.static_path, html=True))] if settings.static_path else []
    )
    line_server = LineServer(services, lines, most_lines)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        services.notifier.attach(asyncio.get_running_loop())
        async with line_server.open():
            yield

    app = Starlette(
        routes=[*routes, *sockets, *files], lifespan=lifespan, exception_handlers={HTTPException: _not_here}
    )
    return Gate(app, settings, lambda path: not any(one.match(path) for one in guarded))


Group = list[tuple[Dialect, Row]]


def rows_by_path(dialects: Sequence[Dialect]) -> Mapping[tuple[str, str], Group]:
    """Return the rows of each method and path, that which answers what no other claims last."""
    groups: dict[tuple[str, str], Group] = {}
    for dialect in dialects:
        for row in dialect.rows:
            for path in row.paths:
                groups.setdefault((row.method, path), []).append((dialect, row))
    return {where: sorted(group, key=lambda one: one[1].claims is None) for where, group in groups.items()}


def _dialect_of(path: str) -> Dialect:
    """Return the dialect in which errors about a path are answered."""
    fits = ((len(prefix), one) for one in DIALECTS for prefix in one.prefixes if path.startswith(prefix))
    return max(fits, key=lambda fit: fit[0], default=(0, llamacpp.DIALECT))[1]


_PATHS = [path for dialect in DIALECTS for row in dialect.rows for path in row.paths]


async def _not_here(request: Request, error: Exception) -> Response:
    """Answer an unknown path or method in the dialect of the path."""
    assert isinstance(error, HTTPException)
    path, message = request.url.path, str(error.detail)
    if error.status_code == 404:
        message = f"there is no {path[:200]} here"
        # A base address that ends in /v1, with a client that adds it once more, is the commonest mistake.
        again = re.sub(r"^(/v1|/api)(?=\1/)", "", path)
        like = [again] if again in _PATHS else difflib.get_close_matches(path[:200], _PATHS, 1)
        message += f"; perhaps {like[0]}" if like else ""
    problem = ApiError(error.status_code, message, headers=error.headers)
    return json_response(_dialect_of(path).errors(problem), problem.status, problem.headers)


# ---- the gate

PREFLIGHT = [
    (b"content-type", b"text/html"),
    (b"content-length", b"0"),
    (b"access-control-allow-credentials", b"true"),
    (b"access-control-allow-methods", b"GET, POST, PATCH, DELETE, OPTIONS"),
    (b"access-control-allow-headers", b"*, Authorization, Content-Type, X-Api-Key"),
]


def _not_from(origin: str) -> str:
    pages = "pages opened from files (their origin is null)" if origin == "null" else f"pages from {origin}"
    return (
        f"{pages} may not use this server; start it with --cors-origins {origin}, "
        "or with --api-key and let the page send that"
    )


# A proxy before this server may have taken the other one for the body's end, and a request hide behind it.
_TWO_LENGTHS = ApiError(
    400,
    "a body has either a Content-Length or a Transfer-Encoding, not both",
    headers={"Connection": "close"},
)


class Gate:
    """Lets requests in to the application. ``is_public`` returns whether a path is open without a key."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, is_public: Callable[[str], bool]) -> None:
        self._app, self._settings, self._is_public = app, settings, is_public
        self._guard = Guard(settings)
        # A client of TCP has no address any more where it reset the connection before it was looked at.
        self._nameless = "unknown" if settings.unix_socket is None else "unix"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._open_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].startswith("/api/"):  # some of its clients end paths with a slash
            scope = {**scope, "path": scope["path"].rstrip("/")}
        started = time.monotonic()
        scope["srbwriter.id"] = new_id()
        status = 0
        added = self._added(scope)

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        try:
            refusal = self._refusal(scope)
            if scope["method"] == "OPTIONS" and refusal is not _TWO_LENGTHS:
                await send_on({"type": "http.response.start", "status": 200, "headers": PREFLIGHT})
                await send_on({"type": "http.response.body", "body": b""})
            elif refusal is not None:
                body = _dialect_of(scope["path"]).errors(refusal)
                answer = json_response(body, refusal.status, refusal.headers)
                await answer(scope, receive, send_on)
            else:
                await self._app(scope, receive, send_on)
        finally:
            self._log(scope, status, time.monotonic() - started)

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check host, origin and key before a WebSocket is opened; a refusal is a 403."""
        scope["srbwriter.id"] = new_id()
        scope["method"] = "POST"  # a page of another origin could otherwise open one
        refusal = self._refusal(scope)
        self._log(scope, 101 if refusal is None else 403, 0.0)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:100]})

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            return _TWO_LENGTHS
        host = headers.get("host")
        if not self._guard.host_allowed(host):
            return ApiError(403, "invalid Host header: this server answers to localhost only")
        origin = headers.get("origin")
        if (
            origin
            and scope["method"] not in ("GET", "HEAD", "OPTIONS")
            and origin.split("://", 1)[-1] != host
            and not self._guard.origin_allowed(origin)
        ):
            return ApiError(403, _not_from(origin))
        peer = scope["client"][0] if scope.get("client") else self._nameless
        client = self._guard.client(headers.get("authorization"), headers.get("x-api-key"), peer)
        scope["srbwriter.client"] = client or Client(peer, False, peer)
        if client is not None or self._is_public(scope["path"]):
            return None
        return ApiError(401, "Invalid API Key", headers={"WWW-Authenticate": "Bearer"})

    def _added(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        added = [(b"x-request-id", scope["srbwriter.id"].encode())]
        origin = Headers(scope=scope).get("origin")
        if origin is not None:
            added.append((b"vary", b"Origin"))
            if self._guard.origin_allowed(origin):
                added.append((b"access-control-allow-origin", origin.encode("latin-1")))
                added.append(
                    (b"access-control-expose-headers", b"X-Request-Id, X-Queue, X-Note, Retry-After")
                )
        return added

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        if not self._settings.access_log:
            return
        id, method, path = scope["srbwriter.id"], scope["method"], scope["path"]
        if self._settings.log_format == "json":
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": time, "id": id, "method": method, "path": path, "status": status}
            access.info("%s", json.dumps({**line, "seconds": round(seconds, 4)}), extra={"whole": True})
        else:
            shown = path.encode("unicode_escape").decode()  # a path may hold line feeds
            access.info("%s %s %s %d %.3fs", id, method, shown, status, seconds)


# ---- the description of all rows

_TYPES: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "ids": {"type": "array", "items": {"type": "integer"}},
    "biases": {"type": "object"},
    "stop": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "json_schema": {"type": "object"},
    # and those of fields that are no parameters
    "prompt": {
        "description": "Text, token ids, both mixed, or several of these.",
        "oneOf": [{"type": "string"}, {"type": "array", "items": {}, "minItems": 1}, {"type": "object"}],
    },
    "messages": {"type": "array", "items": {"type": "object", "required": ["role", "content"]}},
    "any": {},
}  # fmt: skip


def _field(row: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {**_TYPES.get(row.name, _TYPES.get(row.kind, {"type": "string"}))}
    schema |= {"description": row.help, "x-record": row.record}
    if row.step is not None:
        schema["x-step"] = row.step
    if isinstance(row.default, bool | int | float | str):
        schema["default"] = row.default
    if row.choices:
        schema["enum"] = list(row.choices)
    if row.kind in ("int", "float"):
        bounds = {"minimum": row.minimum, "maximum": row.maximum}
        schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    return schema


_FIELDS = {row.name: _field(row) for row in PARAMETERS if row.name not in OF_DIALECTS}


def _schema(names: str) -> dict[str, Any]:
    """Return the schema of an object from the fields of a row; see :class:`.http.Row`."""
    fields: dict[str, Any] = {}
    required: list[str] = []
    for word in names.split():
        name, _, kind = word.partition(":")
        if name == "+":
            fields |= _FIELDS
            continue
        if name.endswith("!"):
            name = name[:-1]
            required.append(name)
        kind = kind or ("prompt" if name == "prompt" else "messages" if name == "messages" else "string")
        fields[name] = _TYPES.get(kind, {"type": kind})
    return {"type": "object", **({"required": required} if required else {}), "properties": fields}


_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


def describe(dialects: Sequence[Dialect]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of all rows."""
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), group in rows_by_path(dialects).items():
        dialect, row = group[-1]
        in_path: list[dict[str, Any]] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in _PARAMETER.findall(path)
        ]
        in_query = [
            {"name": name, "in": "query", "schema": schema}
            for name, schema in _schema(row.query)["properties"].items()
        ]
        operation: dict[str, Any] = {
            "operationId": f"{method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', path)}",
            "summary": "; ".join(one.summary for _, one in reversed(group)),
            "tags": [dialect.title],
            "parameters": in_path + in_query,
            "responses": {"default": {"description": "the answer"}},
        }
        if row.body:
            schema = _schema(row.body)
            content = {"application/json": {"schema": schema}}
            operation["requestBody"] = {"required": "required" in schema, "content": content}
        if not row.public:
            operation["security"] = [{}, {"key": []}]
        paths.setdefault(_PARAMETER.sub(r"{\1}", path), {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "srbwriter", "version": __version__, "summary": "Many branches of a text at once"},
        "tags": [{"name": dialect.title} for dialect in dialects],
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }
