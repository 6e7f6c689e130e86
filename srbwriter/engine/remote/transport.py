"""HTTP to one address: JSON for questions, events for branches. Every failure is raised as a RemoteError."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin

import httpx
import msgspec

from srbwriter.version import __version__

from ..types import RemoteError
from .options import RemoteOptions, address, shown

logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write a line for every request

IS_IT_AN_ENGINE = "is the address that of an engine, with the right port and path?"
ANSWER_SECONDS = 30.0  # a question may take; branches may take as long as they like between two tokens
_LONGEST = 400  # characters of a server's own words
_LONGEST_WAIT = 120.0  # seconds that a server can make us wait
_NO_EVENT = re.compile(r"data:|(event|id|retry)?:[^\ufffd]*$|\r?$")
_OWN_WORDS = re.compile(r'"(?:message|msg|detail|error)"\s*:\s*("(?:[^"\\]|\\.)+")')
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""HTTP statuses after which another attempt may succeed."""
_CURES: Mapping[int, str] = {
    401: "it wants another key ({words}); give it with --connect-key",
    403: "it does not let us in ({words}); does it want another --connect-key?",
    404: "it has nothing at {path} ({words}); is the address that of an engine, "
    "and are --connect-model and --dialect right?",
    429: "it has too much to do ({words})",
    501: "the engine elsewhere cannot: {words}",
}


class Transport:
    """The connections to one address, of HTTP/1.1. To be used on one event loop."""

    def __init__(self, options: RemoteOptions) -> None:
        url = address(options.url)
        self.options, self.where = options, shown(url)
        headers = {
            "User-Agent": f"srbwriter/{__version__}", "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }  # fmt: skip
        if options.key:
            headers["Authorization"] = f"Bearer {options.key}"
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            verify=httpx.create_ssl_context(options.verify),
            timeout=httpx.Timeout(options.silent_seconds, connect=options.connect_seconds, pool=None),
            limits=httpx.Limits(max_connections=options.max_requests, keepalive_expiry=60.0),
        )
        self.close = self._client.aclose

    async def ask(self, path: str) -> Any:
        """Return the JSON that is at ``path``. Raises RemoteError."""
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=self.options.connect_seconds)
        async with self._request("GET", path, timeout=timeout) as response:
            data = await response.aread()
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise unreadable(self.where, data) from None

    async def events(self, path: str, body: Any) -> AsyncGenerator[list[bytes]]:
        """Send a request for server-sent events; yield the data of those that came together, as a list.

        Closing it before the end closes the connection, which ends the request over there. Raises
        RemoteError.
        """
        async with self._request("POST", path, msgspec.json.encode(body)) as response:
            rest, chunk, chunks = b"", b"", aiter(response.aiter_bytes())
            while chunk is not None:  # and once more: the last line may lack its end
                chunk = await anext(chunks, None)
                *lines, rest = (rest + (b"\n" if chunk is None else chunk)).split(b"\n")
                for line in lines:
                    # To pass over a line of no event might be to lose a token, and so might a spoilt end.
                    if not _NO_EVENT.match(line.decode("utf-8", "replace")):
                        raise unreadable(self.where, line)
                data = [line[5:].strip() for line in lines if line.startswith(b"data:")]
                if events := list(filter(None, data)):
                    yield events

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, content: bytes = b"", timeout: Any = httpx.USE_CLIENT_DEFAULT
    ) -> AsyncGenerator[httpx.Response]:
        """Send a request; its answer is still to be read. Raises RemoteError, also while it is read."""
        try:
            async with self._client.stream(method, path, content=content, timeout=timeout) as response:
                if not response.is_success:
                    raise _refusal(self.where, path, response, await response.aread())
                yield response
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _lost(self.where, error) from error


# ---- errors


def _lost(where: str, error: Exception) -> RemoteError:
    """Return the error for a failure below HTTP."""
    words = str(error) or type(error).__name__
    if "CERTIFICATE" in words.upper():
        cure = (
            "name the file of its authority in the variable SSL_CERT_FILE, or take any certificate with "
            "--no-connect-verify"
        )
        return RemoteError(where, f"its certificate is not trusted ({words}); {cure}", again=False)
    if isinstance(error, httpx.ConnectTimeout):
        return RemoteError(where, "it does not answer; is the address right?")
    if isinstance(error, httpx.TimeoutException):
        return RemoteError(where, "it has said nothing for too long")
    if isinstance(error, httpx.ConnectError):
        return RemoteError(where, f"no connection ({words}); is the server running?")
    return RemoteError(where, f"the connection was lost ({words})")


def _refusal(where: str, path: str, response: httpx.Response, body: bytes) -> RemoteError:
    """Return the error for an answer that is no 2xx: the server's own words, and the cure if there is one."""
    status, headers = response.status_code, response.headers
    words, field, wait = own_words(body) or f"HTTP {status}", "", 0.0
    if status < 400:  # a key would go along
        target = urljoin(where, headers.get("location", "nowhere"))
        words = f"it sends us on to {target}, which is not followed; {IS_IT_AN_ENGINE}"
    elif status in _CURES:
        words = _CURES[status].format(words=words, path=path)
    elif status >= 500:
        words = f"it failed ({words})"
    else:
        with suppress(ValueError, TypeError, KeyError):
            field = str(json.loads(body)["error"]["param"] or "")
    with suppress(ValueError):  # a date: nobody who serves a model sends one
        wait = max(0.0, min(float(headers.get("retry-after", "")), _LONGEST_WAIT))
    return RemoteError(where, words, again=status in _AGAIN, wait=wait, status=status, field=field)


def unreadable(where: str, data: bytes) -> RemoteError:
    """Return the error for an answer that cannot be read."""
    if data.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<"):
        return RemoteError(where, f"it answers with a web page; {IS_IT_AN_ENGINE}", again=False)
    words = f"what it sends cannot be read: {data[:60]!r}" if data else "its answer is empty"
    return RemoteError(where, f"{words}; {IS_IT_AN_ENGINE}")


def own_words(body: bytes) -> str:
    """Return the message in an error's body, or a body of plain words; "" for any other."""
    text = body[: 1 << 16].decode("utf-8", "replace").strip()
    if (match := _OWN_WORDS.search(text)) is not None:
        with suppress(ValueError):
            text = str(json.loads(match[1], strict=False))
    return "" if text[:1] in "<{[" else " ".join(text.split())[:_LONGEST]
