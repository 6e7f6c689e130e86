"""One error type for all responses that are not 200, and the form that each dialect gives it.

Engine errors are translated here and nowhere else, so that every dialect uses the same status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from srbwriter.engine.types import (
    Cancelled,
    ContextOverflow,
    EngineClosed,
    EngineError,
    InvalidRequest,
    NotSupported,
    OutOfRange,
    RemoteError,
)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
"""Error types by status, where the rest are the client's or the server's: llama.cpp's names, as OpenAI's."""


class ApiError(Exception):
    """A response other than 200. ``field`` names the culprit of a 400."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        field: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind or _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.field = field
        self.code = code
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})


@dataclass(frozen=True, slots=True)
class Dialect:
    """The form of errors for one family of clients.

    ``body`` makes the JSON object. ``busy`` is the status for a server with too many requests.
    """

    name: str
    body: Callable[[ApiError], dict[str, Any]]
    busy: int = 503


def _llamacpp(error: ApiError) -> dict[str, Any]:
    return {"error": {"code": error.status, "message": error.message, "type": error.kind, **error.extra}}


def _openai(error: ApiError) -> dict[str, Any]:
    problem = {"message": error.message, "type": error.kind, "param": error.field}
    return {"error": {**problem, "code": error.code or error.status, **error.extra}}


LLAMACPP = Dialect("llamacpp", _llamacpp)
"""The words of llama.cpp's server, which are everybody's who has none of their own."""

OPENAI = Dialect("openai", _openai, busy=429)
"""OpenAI's words, which several programs took over."""


def bad(field: str | None, message: str) -> ApiError:
    """A 400 about one field of a request."""
    return ApiError(400, message, field=field)


def missing(field: str) -> ApiError:
    """A 400 for a field that a request needs and does not have."""
    return bad(field, f"`{field}` is missing")


def unavailable(message: str, seconds: int = 1) -> ApiError:
    return ApiError(503, message, headers={"Retry-After": str(seconds)})


def from_engine(error: BaseException) -> ApiError:
    """Return the response to an engine's error."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ContextOverflow):
        return ApiError(
            400,
            str(error),
            kind="exceed_context_size_error",
            code="context_length_exceeded",
            extra={"n_prompt_tokens": error.n_prompt, "n_ctx": error.n_ctx},
        )
    if isinstance(error, OutOfRange):  # in llama.cpp's words
        low = "-inf" if error.low is None else error.low
        high = "" if error.high is None else f" <= {error.high}"
        words = f"Value must be between {low} <= value{high}, but got {error.value}"
        return bad(error.field, f"Field '{error.field}': {words}")
    if isinstance(error, InvalidRequest):
        return bad(error.field, f"Field '{error.field}': {error.problem}")
    if isinstance(error, NotSupported):
        return ApiError(501, str(error))
    if isinstance(error, (EngineClosed, Cancelled)):
        return unavailable(str(error))
    if isinstance(error, RemoteError):  # its words, and not where it is: that is no business of a client's
        if error.status in (400, 422):
            return bad(error.field or None, error.problem)
        return ApiError(error.status if error.status in (413, 501) else 503, error.problem)
    if isinstance(error, EngineError):
        return ApiError(503, str(error))
    return ApiError(500, f"{type(error).__name__}: {error}")
