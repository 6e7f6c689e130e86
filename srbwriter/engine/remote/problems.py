"""What goes wrong between here and there, in words, and whether it is worth another attempt."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any, cast

import httpx

from ..types import RemoteError

_LONGEST = 400  # characters of a server's own words
_LONGEST_WAIT = 120.0  # seconds that a server can make us wait
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Answers after which the same request may do better."""


def from_transport(where: str, error: Exception) -> RemoteError:
    """What a failure below HTTP comes to."""
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            problem = "it does not answer; is the address right?"
        case httpx.ConnectError():
            if "CERTIFICATE" in str(error).upper():
                return RemoteError(
                    where,
                    f"its certificate is not trusted ({error}); name the file of its authority "
                    "in the variable SSL_CERT_FILE, or take any certificate with --no-connect-verify",
                    again=False,
                )
            problem = f"no connection ({_reason(error)}); is the server running?"
        case httpx.ReadTimeout() | httpx.WriteTimeout():
            problem = "it has said nothing for too long"
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            return RemoteError(where, str(error), again=False)
        case _:
            problem = f"the connection was lost ({_reason(error)})"
    return RemoteError(where, problem)


def from_answer(where: str, status: int, headers: Mapping[str, str], body: bytes) -> RemoteError:
    """What an answer that is no 2xx comes to: the server's own words, and the cure where there is one."""
    words, field = own_words(body) or f"HTTP {status}", ""
    if status in (401, 403):
        words = f"it wants another key ({words}); give it with --connect-key"
    elif status == 404:
        words = f"there is nothing like that ({words}); is it the right address, model and --dialect?"
    elif status == 429:
        words = f"it has too much to do ({words})"
    elif status in (400, 422):
        field = _culprit(body, words)
    elif status == 501:
        words = f"the engine elsewhere cannot: {words}"
    elif status >= 500:
        words = f"it failed ({words})"
    again, wait = status in _AGAIN, _retry_after(headers)
    return RemoteError(where, words, again=again, wait=wait, status=status, field=field)


def garbage(where: str, data: bytes) -> RemoteError:
    """An answer that cannot be read."""
    return RemoteError(where, f"what it sends cannot be read: {data[:60]!r}")


def own_words(body: bytes) -> str:
    """The message in an error's body, in whichever of the usual places it is."""
    text = body[: 1 << 16].decode("utf-8", "replace").strip()
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    found = _message(value) or ("" if value is not None or "<html" in text.lower() else text)
    return re.sub(r"\s+", " ", found)[:_LONGEST]


def _culprit(body: bytes, words: str) -> str:
    """The field that a 400 is about: as OpenAI tells it, or in srbwriter's and llama.cpp's words."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        told: Any = json.loads(body)["error"]["param"]
        if isinstance(told, str):
            return told
    named = re.match(r"Field '(\w+)'", words)
    return named[1] if named else ""


def _message(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(filter(None, map(_message, cast("list[Any]", value))))
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name in ("error", "message", "msg", "detail", "result"):
            if found := _message(fields.get(name)):
                return found
    return ""


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return max(0.0, min(float(headers.get("retry-after", "")), _LONGEST_WAIT))
    except ValueError:
        return 0.0  # a date: nobody who serves a model sends one


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    return str(error) or (str(cause) if cause is not None else "") or type(error).__name__
