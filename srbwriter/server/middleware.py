"""Authentication, and the headers of every response.

Checks host, key and origin; adds ids and CORS headers. Plain ASGI, because every streamed frame passes
through it. Logs method, path, status and time; never a body, a query or a header.
"""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from srbwriter.server.context import json_response
from srbwriter.server.errors import LLAMACPP, ApiError, Dialect
from srbwriter.server.registry import new_id
from srbwriter.server.settings import LOOPBACK_NAMES, Client, ServerSettings, is_loopback, server_keys


class Guard:
    """The rules of one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._keys = server_keys(settings)
        origins = (origin.strip() for text in settings.cors_origins for origin in text.split(","))
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins if origin)
        self._local = settings.unix_socket is None and all(map(is_loopback, settings.host))
        self._hosts = LOOPBACK_NAMES | {host.strip("[]").lower() for host in settings.host}

    def host_allowed(self, host: str | None) -> bool:
        """On loopback a browser must have meant this machine by name, or a rebound name reads our answers."""
        if not self._local or host is None:
            return True
        name = _host_of(f"//{host}")
        return name is not None and (name in self._hosts or is_loopback(name))

    def client(self, authorization: str | None, api_key: str | None, peer: str) -> Client | None:
        """Return the client whose key either header holds, or the one at ``peer`` where no key is needed.

        None where a key is needed and missing or wrong. Every key is compared, in constant time.
        """
        if not self._keys:
            return Client(peer, True, peer)
        given = (authorization or api_key or "").strip()
        if given[:7].lower() == "bearer ":
            given = given[7:].strip()
        sent = given.encode("utf-8", "surrogateescape")
        found = [
            key
            for key in self._keys
            for spelled in (
                key.secret,
                key.secret.encode().decode("latin-1"),
            )  # as headers come
            if hmac.compare_digest(sent, spelled.encode())
        ]
        return Client(found[0].name, found[0].admin, peer) if found else None

    def origin_allowed(self, origin: str) -> bool:
        """Whether a page from ``origin`` may read answers."""
        local = origin.lower().startswith(("http://", "https://")) and is_loopback(_host_of(origin) or "")
        if local or "*" in self._origins or origin.lower() in self._origins:
            return True
        return bool(self._keys) and not self._origins


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


access = logging.getLogger("srbwriter.server.access")

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


class Middleware:
    """Wrap the application. ``is_public`` returns whether a path is open without a key."""

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, is_public: Callable[[str], bool],
        dialect_of: Callable[[str], Dialect] = lambda _: LLAMACPP,
    ) -> None:  # fmt: skip
        self._app, self._settings, self._is_public = app, settings, is_public
        self._dialect_of = dialect_of
        self._guard = Guard(settings)
        # A client of TCP has no address any more where it reset the connection before it was looked at.
        self._nameless = "unknown" if settings.unix_socket is None else "unix"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        await (self._socket if scope["type"] == "websocket" else self._http)(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
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
                body = self._dialect_of(scope["path"]).body(refusal)
                answer = json_response(body, refusal.status, refusal.headers)
                await answer(scope, receive, send_on)
            else:
                await self._app(scope, receive, send_on)
        finally:
            if self._settings.access_log:
                self._log(scope, status, time.monotonic() - started)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check host, origin and key before a WebSocket is opened; a refusal is a 403."""
        scope["srbwriter.id"] = new_id()
        scope["method"] = "POST"  # a page of another origin could otherwise open one
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:100]})
        if self._settings.access_log:
            self._log(scope, 101 if refusal is None else 403, 0.0)

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
        given = headers.get("authorization"), headers.get("x-api-key")
        peer = scope["client"][0] if scope.get("client") else self._nameless
        client = self._guard.client(*given, peer)
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
                added.append((b"access-control-expose-headers", b"X-Request-Id, X-Queue, Retry-After"))
        return added

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        id, method, path = scope["srbwriter.id"], scope["method"], scope["path"]
        if self._settings.log_format == "json":
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": time, "id": id, "method": method, "path": path, "status": status}
            access.info("%s", json.dumps({**line, "seconds": round(seconds, 4)}), extra={"whole": True})
        else:
            shown = path.encode("unicode_escape").decode()  # a path may hold line feeds
            access.info("%s %s %s %d %.3fs", id, method, shown, status, seconds)
