"""The application: the endpoints of every dialect on one Starlette, behind one gate.

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
from .dialects import kobold, llamacpp, ollama, openai, srb, webui
from .errors import ApiError
from .http import Dialect, Endpoint, answering, json_response
from .lines import LineServer
from .registry import new_id
from .run import Services
from .settings import ServerSettings

log = logging.getLogger(__name__)
access = logging.getLogger("srbwriter.server.access")

DIALECTS: tuple[Dialect, ...] = (
    srb.DIALECT,
    openai.DIALECT,
    llamacpp.DIALECT,
    kobold.DIALECT,
    webui.DIALECT,
    webui.OLDER,
    ollama.DIALECT,
    page.DIALECT,
)
"""Every dialect. Where several have an endpoint for one path, those before are asked first."""


def build_app(services: Services, lines: Sequence[socket.socket] = (), most_lines: int = 0) -> ASGIApp:
    """Return the ASGI application of one server, for one event loop.

    The line protocol is spoken on the listening sockets of ``lines``, to ``most_lines`` clients at once.
    Sockets may be appended until the application starts.
    """
    settings = services.settings
    services.openapi = describe(DIALECTS)
    routes: list[Route | WebSocketRoute | Mount] = []
    guarded: list[re.Pattern[str]] = []
    for (method, path), group in endpoints_by_path(DIALECTS).items():
        endpoints = [one for one in group if not (one[1].gives_way and settings.static_path)]
        if endpoints:
            route = Route(path, answering(endpoints, services), methods=[method])
            routes.append(route)
            guarded += [] if all(endpoint.public for _, endpoint in endpoints) else [route.path_regex]
    for path, answer in webui.SOCKETS.items():
        route = WebSocketRoute(path, partial(answer, services=services))
        routes.append(route)
        guarded.append(route.path_regex)
    if settings.static_path:
        routes.append(Mount("/", StaticFiles(directory=settings.static_path, html=True)))
    line_server = LineServer(services, lines, most_lines)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        services.notifier.attach(asyncio.get_running_loop())
        async with line_server.open():
            yield

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _not_here})
    return Gate(app, settings, lambda path: not any(one.match(path) for one in guarded))


Endpoints = Sequence[tuple[Dialect, Endpoint]]


def endpoints_by_path(dialects: Sequence[Dialect]) -> Mapping[tuple[str, str], Endpoints]:
    """Return the endpoints of each method and path, that which answers what no other claims last."""
    groups: dict[tuple[str, str], list[tuple[Dialect, Endpoint]]] = {}
    for dialect in dialects:
        for endpoint in dialect.endpoints:
            for path in endpoint.paths:
                groups.setdefault((endpoint.method, path), []).append((dialect, endpoint))
    return {where: sorted(group, key=lambda one: one[1].claims is None) for where, group in groups.items()}


def _dialect_of(path: str) -> Dialect:
    """Return the dialect in which errors about a path are answered."""
    fits = ((len(prefix), one) for one in DIALECTS for prefix in one.prefixes if path.startswith(prefix))
    return max(fits, key=lambda fit: fit[0], default=(0, llamacpp.DIALECT))[1]


_PATHS = [path for dialect in DIALECTS for endpoint in dialect.endpoints for path in endpoint.paths]


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
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (b"access-control-allow-headers", b"*, Authorization, Content-Type, X-Api-Key"),
]
_EXPOSED = (b"access-control-expose-headers", b"X-Request-Id, X-Note, Retry-After")


class Gate:
    """Lets requests in to the application. ``is_public`` returns whether a path is open without a key."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, is_public: Callable[[str], bool]) -> None:
        self._app, self._settings, self._is_public = app, settings, is_public
        self._guard = Guard(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith(("/api/", "/v1/")):  # some of their clients end paths with a slash
            scope = {**scope, "path": (path := path.rstrip("/"))}
        is_socket, started, status = scope["type"] == "websocket", time.monotonic(), 0
        # A WebSocket is as a POST, or a page of another origin could open one.
        scope = {**scope, "srbwriter.id": new_id(), "method": "POST" if is_socket else scope["method"]}
        added = self._added(scope)

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *added]}
            async with asyncio.timeout(self._settings.timeout):  # else the client has stopped reading
                await send(message)

        try:
            refusal = self._refusal(scope)
            if is_socket and refusal is not None:
                status, _ = 403, await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:100]})
            elif refusal is not None and not (scope["method"] == "OPTIONS" and refusal.status != 400):
                answer = json_response(_dialect_of(path).errors(refusal), refusal.status, refusal.headers)
                await answer(scope, receive, send_on)
            elif scope["method"] == "OPTIONS":
                await send_on({"type": "http.response.start", "status": 200, "headers": PREFLIGHT})
                await send_on({"type": "http.response.body", "body": b""})
            else:
                await self._app(scope, receive, send_on)
        except TimeoutError:
            log.info("a client that stopped reading is dropped")
        finally:
            self._log(scope, 101 if is_socket and not status else status, time.monotonic() - started)

    def _refusal(self, scope: Scope) -> ApiError | None:
        """Return why a request is refused, or None. Sets its client."""
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may have taken the other one for the body's end, and a request hide behind it.
            words = "a body has either a Content-Length or a Transfer-Encoding, not both"
            return ApiError(400, words, headers={"Connection": "close"})
        host, origin = headers.get("host"), headers.get("origin")
        if not self._guard.host_allowed(host):
            return ApiError(403, "invalid Host header: this server answers to localhost only")
        reads_only = scope["method"] in ("GET", "HEAD", "OPTIONS")
        own = not origin or reads_only or origin.split("://", 1)[-1] == host
        if not own and not self._guard.origin_allowed(origin or ""):
            pages = f"pages from {origin}"
            if origin == "null":
                pages = "pages opened from files (their origin is null)"
            cure = f"start it with --cors-origins {origin}, or with --api-key and let the page send that"
            return ApiError(403, f"{pages} may not use this server; {cure}")
        peer = scope["client"][0] if scope.get("client") else "unknown"  # over a socket file, or gone already
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
                added += [(b"access-control-allow-origin", origin.encode("latin-1")), _EXPOSED]
        return added

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        id, method, path = scope["srbwriter.id"], scope["method"], scope["path"]
        if not self._settings.access_log:
            return
        if self._settings.log_format == "json":
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": time, "id": id, "method": method, "path": path, "status": status}
            access.info("%s", json.dumps({**line, "seconds": round(seconds, 4)}), extra={"whole": True})
        else:
            shown = path.encode("unicode_escape").decode()  # a path may hold line feeds
            access.info("%s %s %s %d %.3fs", id, method, shown, status, seconds)


# ---- the description of all endpoints

_LIST = {"type": "array", "items": {"type": "string"}}
_TYPES: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "texts": _LIST,
    "ids": {"type": "array", "items": {"type": "integer"}},
    "biases": {"type": "object"},
    "stop": {"oneOf": [{"type": "string"}, _LIST]},
    "json_schema": {"type": "object"},
    # and those of fields that are no parameters
    "prompt": {
        "description": "Text, token ids, both mixed, or several of these.",
        "oneOf": [{"type": "string"}, {"type": "array", "items": {}, "minItems": 1}, {"type": "object"}],
    },
    "messages": {"type": "array", "items": {"type": "object", "required": ["role", "content"]}},
    "any": {},
}


def _field(row: Parameter) -> dict[str, Any]:
    kind = _TYPES.get(row.name, _TYPES.get(row.kind, {"type": "string"}))
    known = {
        "x-step": row.step, "default": row.default, "enum": list(row.choices), "minimum": row.minimum,
        "maximum": row.maximum,
    }  # fmt: skip
    known = {name: value for name, value in known.items() if value not in (None, [], ())}
    return {**kind, "description": row.help, "x-record": row.record, **known}


_FIELDS = {row.name: _field(row) for row in PARAMETERS if row.name not in OF_DIALECTS}
_IN_PATH = re.compile(r"\{(\w+)(?::\w+)?\}")


def _schema(names: str) -> dict[str, Any]:
    """Return the schema of an object from the fields of an endpoint; see :class:`.http.Endpoint`."""
    fields, required = dict[str, Any](), list[str]()
    for word in names.split():
        name, _, kind = word.partition(":")
        if name.endswith("!"):
            required.append(name := name[:-1])
        kind = kind or (name if name in ("prompt", "messages") else "string")
        fields |= _FIELDS if name == "+" else {name: _TYPES.get(kind, {"type": kind})}
    return {"type": "object", **({"required": required} if required else {}), "properties": fields}


def describe(dialects: Sequence[Dialect]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of all endpoints."""
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), group in endpoints_by_path(dialects).items():
        dialect, endpoint = group[-1]
        in_path = [(name, "path", {"type": "string", "minLength": 1}) for name in _IN_PATH.findall(path)]
        query = [(name, "query", schema) for name, schema in _schema(endpoint.query)["properties"].items()]
        operation: dict[str, Any] = {
            "operationId": f"{method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', path)}",
            "summary": "; ".join(one.summary for _, one in reversed(group)),
            "tags": [dialect.title],
            "parameters": [
                {"name": name, "in": where, "schema": schema, "required": where == "path"}
                for name, where, schema in (*in_path, *query)
            ],
            "responses": {"default": {"description": "the answer"}},
        }
        if endpoint.body:
            schema = _schema(endpoint.body)
            content = {"application/json": {"schema": schema}}
            operation["requestBody"] = {"required": "required" in schema, "content": content}
        if not endpoint.public:
            operation["security"] = [{}, {"key": []}]
        paths.setdefault(_IN_PATH.sub(r"{\1}", path), {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "srbwriter", "version": __version__, "summary": "Many branches of a text at once"},
        "tags": [{"name": dialect.title} for dialect in dialects],
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }
