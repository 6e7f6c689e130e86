"""Errors of connections and answers: the words for each, and whether another attempt may help."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urljoin

import httpx

from ..types import RemoteError

_LONGEST = 400  # characters of a server's own words
_LONGEST_WAIT = 120.0  # seconds that a server can make us wait
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""HTTP statuses after which another attempt may succeed."""


def from_transport(where: str, error: Exception) -> RemoteError:
    """Return the error for a failure below HTTP."""
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            problem = "it does not answer; is the address right?"
        case httpx.ConnectError():
            return _not_connected(where, error)
        case httpx.ReadTimeout() | httpx.WriteTimeout():
            problem = "it has said nothing for too long"
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            return RemoteError(where, f"{error}; give an address like http://host:8000", again=False)
        case _:
            problem = f"the connection was lost ({_reason(error)})"
    return RemoteError(where, problem)


def _not_connected(where: str, error: httpx.ConnectError) -> RemoteError:
    words = str(error).upper()
    if "CERTIFICATE" in words:
        return RemoteError(
            where,
            f"its certificate is not trusted ({error}); name the file of its authority "
            "in the variable SSL_CERT_FILE, or take any certificate with --no-connect-verify",
            again=False,
        )
    if any(sign in words for sign in _NO_TLS):
        plain = where.replace("https://", "http://", 1)
        return RemoteError(where, f"no TLS is spoken at that port; try --connect {plain}", again=False)
    return RemoteError(where, f"no connection ({_reason(error)}); is the server running?")


_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL")
"""What OpenSSL's versions say where the other side answers without TLS."""


def wants_tls(where: str) -> RemoteError:
    """Return the error for a port where TLS is spoken, and that was spoken to without."""
    secure = where.replace("http://", "https://", 1)
    return RemoteError(where, f"TLS is spoken at that port; try --connect {secure}", again=False)


def from_answer(
    where: str, status: int, headers: Mapping[str, str], body: bytes, path: str = ""
) -> RemoteError:
    """Return the error for an answer that is no 2xx: the server's own words, and the cure if there is one.

    ``path`` is the path that was requested.
    """
    words, field = own_words(body) or f"HTTP {status}", ""
    if status == 400 and _SENT_WITHOUT_TLS.search(body):
        return wants_tls(where)
    if 300 <= status < 400:
        return _moved(where, headers.get("location", ""), path)
    if status == 401:
        words = f"it wants another key ({words}); give it with --connect-key or --connect-key-file"
    elif status == 403:
        words = f"it does not let us in ({words}); does it want another --connect-key?"
    elif status == 404:
        words = (
            f"it has nothing at {path or 'that path'} ({words}); is the address that of an engine, "
            "and are --connect-model and --dialect right?"
        )
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


_SENT_WITHOUT_TLS = re.compile(
    rb"plain HTTP request was sent to HTTPS|HTTP request to an HTTPS server|plain HTTP to an SSL-enabled"
)
"""In the words of nginx, Go and Apache."""


def _moved(where: str, location: str, path: str) -> RemoteError:
    """Return the error for a redirect: it is not followed, for a key would go along."""
    target = urljoin(f"{where}{path}", location)
    asked = path.partition("?")[0]
    base = target.removesuffix(asked)
    if location and asked and target.endswith(asked) and base != where:
        cure = f"try --connect {base}"
    else:
        cure = (
            "that is no engine's answer; is the address right, and does something ask for a login before it?"
        )
    return RemoteError(where, f"it sends us on to {target if location else 'nowhere'}; {cure}", again=False)


def garbage(where: str, data: bytes) -> RemoteError:
    """Return the error for an answer that cannot be read."""
    if page := _PAGE.match(data):
        title = _TITLE.search(data, page.start())
        named = f" called “{_plain(title[1])}”" if title else ""
        return RemoteError(where, f"it answers with a web page{named}; {IS_IT_AN_ENGINE}", again=False)
    words = f"what it sends cannot be read: {data[:60]!r}" if data else "its answer is empty"
    return RemoteError(where, f"{words}; {IS_IT_AN_ENGINE}")


IS_IT_AN_ENGINE = "is the address that of an engine, with the right port and path?"
_PAGE = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(!doctype html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_TITLE = re.compile(rb"<title[^>]*>(.{1,200}?)</title>", re.IGNORECASE | re.DOTALL)


def _plain(data: bytes) -> str:
    words = re.sub(r"\s+", " ", data.decode("utf-8", "replace")).strip()
    return "".join(character for character in words if character.isprintable())[:80]


def misnumbered(where: str, problem: str) -> RemoteError:
    """Return the error for words that belong to no branch, or to one twice."""
    cure = "the server is faulty, and nothing more is taken from this answer"
    return RemoteError(where, f"{problem}; {cure}", again=False)


def retry_notice(error: RemoteError, wait: float, attempt: int, most: int) -> str:
    """Return a sentence about an attempt that failed, and the next one."""
    when = f"in {wait:.3g} s" if wait else "now"
    return f"{error.where}: {error.problem.partition(';')[0]}. Trying again {when} ({attempt} of {most})."


def own_words(body: bytes) -> str:
    """Return the message in an error's body, from the first usual place that has one."""
    text = body[: 1 << 16].decode("utf-8", "replace").strip()
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    found = _message(value) or ("" if value is not None or "<html" in text.lower() else text)
    return re.sub(r"\s+", " ", found)[:_LONGEST]


def _culprit(body: bytes, words: str) -> str:
    """Return the field that a 400 is about, as OpenAI, srbwriter or llama.cpp name it."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        field: Any = json.loads(body)["error"]["param"]
        if isinstance(field, str):
            return field
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


def _reason(error: BaseException) -> str:
    """Return why a connection failed in the system's words, if it has some."""
    found: list[BaseException] = [error]
    for each in found:
        if isinstance(each, socket.gaierror):
            return "no machine has that name"
        if isinstance(each, OSError) and each.errno and not isinstance(each, ssl.SSLError):
            return os.strerror(each.errno).lower()
        several: tuple[BaseException, ...] = getattr(each, "exceptions", ())  # of an exception group
        found.extend(cause for cause in (each.__cause__, each.__context__, *several) if cause is not None)
    words = [text for text in (str(each) for each in found) if text]
    return words[0] if words else type(error).__name__
