"""The application: every dialect's endpoints on one Starlette behind the middleware, and the pages.

Starlette rather than FastAPI, because clients of these dialects send nulls, unknown keys and numbers as text
that a validating layer would refuse in an error shape none of them reads. What browsers are given comes from
the package; no page asks any other server for anything.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from srbwriter.server.chat import template_of
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects import ENDPOINTS, SOCKETS
from srbwriter.server.endpoints import Handler, Socket, description, rows_of, told
from srbwriter.server.errors import ApiError
from srbwriter.server.lines import House
from srbwriter.server.middleware import Middleware, dialect_of
from srbwriter.server.models import Loader, Offer
from srbwriter.server.notifier import Notifier
from srbwriter.server.services import Services
from srbwriter.server.settings import ServerError, ServerSettings

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@cache
def _asset(name: str) -> bytes | None:
    file = Path(__file__).parent / "page" / name
    return file.read_bytes() if file.is_file() else None


def _file(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    content = _asset(name) if kind and "/" not in name and "\\" not in name and "\0" not in name else None
    if content is None:
        raise ApiError(404, "File Not Found")
    return Response(content, 200, _HEADERS, kind)


def _page(name: str) -> Handler:
    async def handler(context: Context) -> Response:
        return _file(name)

    return handler


async def index(context: Context) -> Response:
    if not context.settings.page:
        raise ApiError(404, "File Not Found")
    return _file("index.html")


async def asset(context: Context) -> Response:
    return _file(context.path["file"])


_row = partial(rows_of("llamacpp", "page"), public=True)
PAGE = _row("GET /", index, "a page to write in")
PAGES = (
    _row("GET /page/{file}", asset, "files of the pages"),
    _row("GET /docs", _page("docs.html"), "this description, to be read"),
    _row("GET /chat", _page("chat.html"), "a page to talk in"),
    _row("GET /completion.js", _page("completion.js"), "llama() and llamaComplete() for pages"),
    _row("GET /openapi.json", told(lambda context: context.services.openapi), "this description"),
)
"""The rows besides the page itself, which gives way to a folder of one's own files."""


def build_app(
    loader: Loader, settings: ServerSettings, lines: Sequence[socket.socket] = (), most_lines: int = 0,
    offers: Sequence[Offer] = (),
) -> ASGIApp:  # fmt: skip
    """The ASGI application of one server. To be run on one event loop. ``offers`` are its models, if several.

    On the listening sockets of ``lines`` the line protocol is spoken, by so many clients at once; they may
    be put in until it runs.
    """
    services = Services(loader, settings, Notifier(), offers)
    template = template_of(settings)
    check_folders(settings)
    rows = (*ENDPOINTS, *PAGES) if settings.static_path else (*ENDPOINTS, *PAGES, PAGE)
    told = description(rows)
    for one in services.models:
        one.services.chat_template, one.services.openapi = template, told
    ours = [route for row in rows for route in row.routes(services)]
    sockets = [socket.route(services) for socket in SOCKETS]
    house = House(services, lines, most_lines)
    # who opens it is let in by headers or by its first line, which browsers can send
    routes: list[BaseRoute] = [*ours, *sockets, Socket("/lines", house.web).route(services)]
    if settings.static_path:
        routes.append(Mount("/", StaticFiles(directory=settings.static_path, html=True)))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        services.notifier.attach(asyncio.get_running_loop())
        async with house.open():
            yield
        for record in services.registry.live():
            for generation in record.generations:
                generation.cancel()
        await asyncio.to_thread(services.models.close)

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _not_here},
    )
    guarded = [*sockets, *(route for row in rows if not row.public for route in row.routes(services))]
    return Middleware(app, settings, lambda path: not any(route.path_regex.match(path) for route in guarded))


def check_folders(settings: ServerSettings) -> None:
    """Raise ServerError for folders of the settings that are not there."""
    named = (
        (settings.slot_save_path, "to save slots in", "--slot-save-path"),
        (settings.static_path, "to serve", "--path"),
    )
    problems = [
        f"{path}: there is no such folder {purpose}; correct {flag}"
        for path, purpose, flag in named
        if path is not None and not path.is_dir()
    ]
    if problems:
        raise ServerError(*problems)


async def _not_here(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in the path's dialect."""
    assert isinstance(error, HTTPException)
    message = "File Not Found" if error.status_code == 404 else str(error.detail)
    told = ApiError(error.status_code, message, headers=error.headers)
    return json_response(told.body(dialect_of(request.url.path)), told.status, told.headers)
