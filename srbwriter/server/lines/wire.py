"""The lines themselves: escapes, values, and reading them off a pipe without holding more than one.

A message is one line of UTF-8 that ends in LF: a word, and after a space its text. Knows no command.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

MOST = 1 << 20
"""Bytes of a line, its end not counted."""


class Refused(Exception):
    """A command was refused; the connection stays open. ``code`` is the HTTP status for the same error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Fatal(Exception):
    """What ends the connection, in words."""


class Gone(Exception):
    """The client disconnected, or stopped reading."""


class Pipe(Protocol):
    """Two directions of bytes to one client."""

    async def read(self) -> bytes:
        """Some bytes; nothing where no more will come."""
        ...

    async def write(self, data: bytes) -> None:
        """Send whole lines; wait for a slow client. Raises Gone for one that stopped reading."""
        ...


class Intake:
    """What a client sends, cut up."""

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read
        self.held = bytearray()

    async def more(self) -> bool:
        """Wait for bytes; false where none will come."""
        data = await self._read()
        self.held += data
        return bool(data)

    async def until(self, end: bytes, most: int = MOST) -> bytes | None:
        """Read up to and including the next ``end``; return the bytes before it, None after a disconnect.

        Raises Fatal for more than ``most`` bytes.
        """
        looked = 0
        while (at := self.held.find(end, looked)) < 0:
            looked = len(self.held)
            if looked > most:
                raise Fatal(f"more than {most} bytes without an end")
            if not await self.more():
                return None
        if at > most:
            raise Fatal(f"more than {most} bytes without an end")
        taken = bytes(self.held[:at])
        del self.held[: at + len(end)]
        return taken

    async def line(self) -> bytes | None:
        """The next line less its end; one without an end where nothing follows it, and None after that."""
        line = await self.until(b"\n")
        if line is None and self.held:
            line = bytes(self.held)
            self.held.clear()
        return None if line is None else line.removesuffix(b"\r")


# ---- escapes

_ESCAPED = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.|$)", re.S)
_LETTERS = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_BYTES = {written[1:].encode(): meant.encode() for meant, written in _LETTERS.items()} | {
    b"'": b"'",
    b'"': b'"',
}


def escape(text: str) -> str:
    """``text`` on one line: backslashes, controls and separators of lines are written out."""
    return _ESCAPED.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    meant = found.group()
    return _LETTERS.get(meant) or "".join(f"\\x{byte:02X}" for byte in meant.encode())


def unescape(raw: bytes) -> str:
    """Decode a text with its escapes.

    Raises Refused for unknown escapes, and for bytes that are not UTF-8.
    """
    try:
        return _ESCAPE.sub(_meant, raw).decode()
    except UnicodeDecodeError:
        raise Refused(400, "this is not UTF-8") from None


def _meant(found: re.Match[bytes]) -> bytes:
    written = cast("bytes", found.group(1))
    if len(written) == 3:
        return bytes([int(written[1:], 16)])
    if (meant := _BYTES.get(written)) is None:
        known = r"\\ \n \r \t \0 \' \" and \xHH"
        raise Refused(400, f"unknown escape at byte {found.start()} of the text; there are {known}")
    return meant


# ---- lines

_WORD = re.compile(r"(?!(?:true|false)$)[A-Za-z_][A-Za-z0-9_.-]*")


def message(word: str, text: str) -> bytes:
    """A line of ``word`` and any text."""
    return f"{word} {escape(text)}\n".encode("utf-8", "replace")


def kv(key: str, value: Any) -> bytes:
    """``KV key=value``: texts are quoted unless they are one word, sequences are JSON."""
    return f"KV {key}={_value(value)}\n".encode("utf-8", "replace")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:f}"
    if isinstance(value, (tuple, list)):
        return escape(json.dumps(_plain(cast("Sequence[Any]", value)), ensure_ascii=False))
    text = str(value)
    if isinstance(value, int) or _WORD.fullmatch(text):
        return text
    return '"' + escape(text).replace('"', '\\"') + '"'


def _plain(value: Any) -> Any:
    """What JSON can say: minus infinity is false, as in ``logit_bias``."""
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    return False if value == -math.inf else value


def unquoted(raw: bytes) -> str:
    """Decode a value, bare or in quotes. Raises Refused."""
    if len(raw) > 1 and raw[:1] == raw[-1:] == b'"' and not re.search(rb'(?<!\\)(?:\\\\)*\\"\Z', raw):
        raw = raw[1:-1]
    return unescape(raw)
