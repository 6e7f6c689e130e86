"""The application: every dialect's endpoints on one Starlette, behind the gate.

Assembles only. Starlette rather than FastAPI, because clients of these dialects send nulls, unknown keys and
numbers as text that a validating layer would refuse in an error shape none of them reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from . import pages
from .auth import ServerError
from .call import json_response
from .chat import template_of
from .dialects import ENDPOINTS
from .errors import ApiError
from .follow import Bridge
from .gate import Gate, dialect_of
from .openapi import description
from .services import Loader, Services
from .settings import ServerSettings


def build_app(loader: Loader, settings: ServerSettings) -> ASGIApp:
    """The ASGI application of one server. To be run on one event loop."""
    services = Services(loader, settings, Bridge())
    services.chat_template = template_of(settings)
    if settings.slot_save_path:
        _folder(settings.slot_save_path, "to save slots in")
    rows = (
        (*ENDPOINTS, *pages.ENDPOINTS) if settings.static_path else (*ENDPOINTS, *pages.ENDPOINTS, pages.PAGE)
    )
    services.openapi = description(rows)
    ours = [route for row in rows for route in row.routes(services)]
    routes: list[BaseRoute] = [*ours]
    if settings.static_path:
        routes.append(Mount("/", StaticFiles(directory=_folder(settings.static_path, "to serve"), html=True)))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        services.bridge.attach(asyncio.get_running_loop())
        yield
        for record in services.registry.live():
            for generation in record.generations:
                generation.cancel()

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _not_here},
    )
    guarded = [route for row in rows if not row.public for route in row.routes(services)]
    return Gate(app, settings, lambda path: not any(route.path_regex.match(path) for route in guarded))


def _folder(path: Path, purpose: str) -> Path:
    if not path.is_dir():
        raise ServerError(f"{path}: there is no such folder {purpose}")
    return path


async def _not_here(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in the path's dialect."""
    assert isinstance(error, HTTPException)
    message = "File Not Found" if error.status_code == 404 else str(error.detail)
    told = ApiError(error.status_code, message, headers=error.headers)
    return json_response(told.body(dialect_of(request.url.path)), told.status, told.headers)
