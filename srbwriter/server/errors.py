"""One error type for everything a client may be told, and how each dialect words it.

Engine errors become these in one place, so that no face invents a status of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from srbwriter.engine.types import (
    Cancelled,
    ContextOverflow,
    EngineClosed,
    EngineError,
    InvalidRequest,
    LimitExceeded,
    NotSupported,
    RemoteError,
)

Dialect = Literal["srb", "openai", "llamacpp", "kobold"]

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
"""Error types by status, where the rest are the client's or the server's: llama.cpp's names, as OpenAI's."""

_KOBOLD = {401: "unauthorized", 404: "not_found", 429: "service_unavailable", 503: "service_unavailable"}


class ApiError(Exception):
    """An answer that is not 200. ``field`` names the culprit of a 400."""

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

    def body(self, dialect: Dialect) -> dict[str, Any]:
        """The JSON that ``dialect``'s clients read."""
        if dialect == "srb":
            return {"error": self.message, **self.extra}
        if dialect == "kobold":
            kind = _KOBOLD.get(self.status, "bad_input" if self.status < 500 else "server_error")
            return {"detail": {"error": self.kind, "msg": self.message, "type": kind, **self.extra}}
        error: dict[str, Any] = {"code": self.status, "message": self.message, "type": self.kind}
        if dialect == "openai":
            error = {
                "message": self.message,
                "type": self.kind,
                "param": self.field,
                "code": self.code or self.status,
            }
        return {"error": {**error, **self.extra}}


def bad(field: str | None, message: str) -> ApiError:
    """A 400 about one field of a request."""
    return ApiError(400, message, field=field)


def missing(field: str) -> ApiError:
    """A 400 for a field that a request needs and does not have."""
    return bad(field, f"`{field}` is missing")


def out_of_range(field: str, value: Any, low: Any, high: Any) -> ApiError:
    """A 400 in llama.cpp's words; either bound may be None."""
    bounds = f"{low} <= value" if high is None else f"{low} <= value <= {high}"
    return bad(field, f"Field '{field}': Value must be between {bounds}, but got {value}")


def unavailable(message: str, seconds: int = 1) -> ApiError:
    return ApiError(503, message, headers={"Retry-After": str(seconds)})


def from_engine(error: BaseException) -> ApiError:
    """What a client is told of an engine's error."""
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
    if isinstance(error, LimitExceeded):
        return out_of_range("n", error.n, 1, error.limit)
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
