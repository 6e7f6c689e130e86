"""One error type for all responses that are not 200, and the forms that most clients read.

Engine errors are translated here and nowhere else, so that every dialect uses the same status.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
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

log = logging.getLogger(__name__)

_TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error",
    501: "not_supported_error", 503: "unavailable_error",
}  # fmt: skip
"""Error types by status, where the rest are the client's or the server's: llama.cpp's names, as OpenAI's."""


class ApiError(Exception):
    """A response other than 200. ``field`` names the culprit of a 400."""

    def __init__(
        self, status: int, message: str, *, kind: str | None = None, field: str | None = None,
        code: str | None = None, headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status, self.message, self.field, self.code = status, message, field, code
        self.kind = kind or _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.headers, self.extra = dict(headers or {}), dict(extra or {})


def llamacpp_error(error: ApiError) -> dict[str, Any]:
    """The words of llama.cpp's server, which dialects without their own use."""
    return {"error": {"code": error.status, "message": error.message, "type": error.kind, **error.extra}}


def openai_error(error: ApiError) -> dict[str, Any]:
    """OpenAI's words, which several programs took over."""
    problem = {"message": error.message, "type": error.kind, "param": error.field}
    return {"error": {**problem, "code": error.code or error.status, **error.extra}}


def bad(field: str, problem: str) -> ApiError:
    """A 400 about one field of a request."""
    return ApiError(400, f"Field '{field}': {problem}", field=field)


def missing(field: str) -> ApiError:
    """A 400 for a field that a request needs and does not have."""
    return ApiError(400, f"`{field}` is missing", field=field)


def unavailable(message: str, seconds: int = 1) -> ApiError:
    return ApiError(503, message, headers={"Retry-After": str(seconds)})


def as_api_error(error: BaseException) -> ApiError:
    """Return the response to an error. Only an internal error is a 500, and it is logged."""
    match error:
        case ApiError():
            return error
        case ContextOverflow():
            return ApiError(
                400,
                str(error),
                kind="exceed_context_size_error",
                code="context_length_exceeded",
                extra={"n_prompt_tokens": error.n_prompt, "n_ctx": error.n_ctx},
            )
        case OutOfRange():  # in llama.cpp's words
            low = "-inf" if error.low is None else error.low
            high = "" if error.high is None else f" <= {error.high}"
            return bad(error.field, f"Value must be between {low} <= value{high}, but got {error.value}")
        case InvalidRequest():
            return bad(error.field, error.problem)
        case NotSupported():
            return ApiError(501, str(error))
        case EngineClosed() | Cancelled():
            return unavailable(str(error))
        case RemoteError():  # its words, and not where it is: that is no business of a client's
            if error.status in (400, 422):
                return ApiError(400, error.problem, field=error.field or None)
            return ApiError(error.status if error.status in (413, 501) else 503, error.problem)
        case EngineError():
            return ApiError(503, str(error))
        case _:
            log.error("unforeseen error while answering", exc_info=error)
            return ApiError(500, f"{type(error).__name__}: {error}")


def respell_field(error: ApiError, sent: Mapping[str, Any], spellings: Mapping[str, tuple[str, ...]]) -> None:
    """Put the client's own spelling of the field into the error; the engine knows one name of each.

    ``sent`` are the fields of the body, ``spellings`` the other names of each field.
    """
    name = error.field
    if name is not None and sent.get(name) is None:
        others = (*spellings.get(name, ()), *_OTHER_NAMES.get(name, ()))
        error.field = next((other for other in others if sent.get(other) is not None), name)
        error.message = error.message.replace(f"'{name}'", f"'{error.field}'", 1)


_OTHER_NAMES = {
    "next_ids": ("ids",), "prompt": ("input", "content"), "input": ("content",),
    "json_schema": ("response_format", "format"),
}  # fmt: skip
"""Other names of a field that hold for some paths only or wrap it, and so are no spellings of it."""
