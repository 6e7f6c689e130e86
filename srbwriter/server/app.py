"""The application: the rows of every leaf on one Starlette behind the middleware.

Starlette rather than FastAPI, because clients of these dialects send nulls, unknown keys and numbers as text
that a validating layer would refuse in an error shape none of them reads.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from srbwriter.server.chat import template_of
from srbwriter.server.context import json_response
from srbwriter.server.endpoints import description, routes_of
from srbwriter.server.errors import LLAMACPP, ApiError, Dialect
from srbwriter.server.leaves import LEAVES
from srbwriter.server.middleware import Middleware
from srbwriter.server.services import Loader, Services
from srbwriter.server.settings import ServerError, ServerSettings
from srbwriter.server.streams import Notifier


def build_app(
    loader: Loader, settings: ServerSettings, lines: Sequence[socket.socket] = (), most_lines: int = 0
) -> ASGIApp:
    """Return the ASGI application of one server, for one event loop.

    The line protocol is spoken on the listening sockets of ``lines``, to ``most_lines`` clients at once.
    Sockets may be appended until the application starts.
    """
    services = Services(loader, settings, Notifier())
    services.chat_template = template_of(settings)
    check_folders(settings)
    services.openapi = description(LEAVES.values())
    rows = [row for leaf in LEAVES.values() for row in leaf.rows]
    if settings.static_path:
        rows = [row for row in rows if not row.gives_way]
    companions = [leaf.beside(services, lines, most_lines) for leaf in LEAVES.values() if leaf.beside]
    sockets = [socket for leaf in LEAVES.values() for socket in leaf.sockets]
    guarded = [
        *routes_of([row for row in rows if not row.public], services),
        *(one.route(services) for one in sockets),
    ]
    routes: list[BaseRoute] = [*routes_of(rows, services), *(one.route(services) for one in sockets)]
    if settings.static_path:
        routes.append(Mount("/", StaticFiles(directory=settings.static_path, html=True)))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        services.notifier.attach(asyncio.get_running_loop())
        async with AsyncExitStack() as opened:
            for companion in companions:
                await opened.enter_async_context(companion.open())
            yield
        for record in services.registry.live():
            for generation in record.generations:
                generation.cancel()

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _not_here},
    )

    def is_public(path: str) -> bool:
        return not any(route.path_regex.match(path) for route in guarded)

    return Middleware(app, settings, is_public, dialect_of)


_PREFIXES = sorted(
    (item for leaf in LEAVES.values() for item in leaf.prefixes.items()), key=lambda item: -len(item[0])
)


def dialect_of(path: str) -> Dialect:
    """Return the dialect in which errors about a path are answered."""
    return next((dialect for prefix, dialect in _PREFIXES if path.startswith(prefix)), LLAMACPP)


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
    """Answer an unknown path or method in the dialect of the path."""
    assert isinstance(error, HTTPException)
    message = "File Not Found" if error.status_code == 404 else str(error.detail)
    problem = ApiError(error.status_code, message, headers=error.headers)
    return json_response(dialect_of(request.url.path).body(problem), problem.status, problem.headers)
