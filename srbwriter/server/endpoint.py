"""A row of the server's surface: where it is, who answers, in which dialect, and what the docs say.

Routing, the OpenAPI description and the list of paths open without a key are all made from these rows.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from srbwriter.engine.types import EngineError

from .call import Call, ClientGone, json_response
from .errors import ApiError, Dialect, from_engine
from .services import Services

log = logging.getLogger(__name__)

Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one or more paths.

    ``body`` is the JSON schema of the request body, ``query`` the schemas of query parameters by name.
    ``public`` paths are open without a key.
    """

    method: Literal["GET", "POST", "DELETE", "PATCH"]
    paths: tuple[str, ...]
    handler: Handler
    dialect: Dialect
    summary: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    public: bool = False
    title: str = ""

    @property
    def group(self) -> str:
        """Where the documentation lists it."""
        return self.title or self.dialect

    def routes(self, services: Services) -> list[Route]:
        async def answer(request: Request) -> Response:
            call = Call(request, services, self.dialect)
            try:
                return await self.handler(call)
            except (ClientGone, ClientDisconnect):
                return Response(status_code=499)  # nobody reads it; the log shows it
            except Exception as error:
                return failure(error, call.dialect)

        return [Route(path, answer, methods=[self.method]) for path in self.paths]


def failure(error: Exception, dialect: Dialect) -> Response:
    """An error as an answer in ``dialect``. Only what nobody foresaw is a 500, and is logged."""
    if not isinstance(error, (ApiError, EngineError)):
        log.error("unforeseen error while answering", exc_info=error)
    told = from_engine(error)
    return json_response(told.body(dialect), told.status, told.headers)
