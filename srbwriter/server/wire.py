"""Lines of text to one client, and their escapes. Knows no command.

A message is one line of UTF-8 that ends in LF: a word, and after a space its text.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import socket
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from .errors import ApiError

MOST = 1 << 20
"""Bytes of a line, its end not counted."""


class Fatal(Exception):
    """What ends the connection, in words."""


class Gone(Exception):
    """The client disconnected, or stopped reading."""


# ---- lines and their escapes

_ESCAPED = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.|$)", re.S)
_LETTERS = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_BYTES = {
    **{written[1:].encode(): meant.encode() for meant, written in _LETTERS.items()}, b"'": b"'", b'"': b'"'
}  # fmt: skip
_WORD = re.compile(r"(?!(?:true|false)$)[A-Za-z_][A-Za-z0-9_.-]*")


def escape(text: str) -> str:
    """Return ``text`` on one line: backslashes, controls and separators of lines are written out."""

    def written(match: re.Match[str]) -> str:
        meant = match.group()
        return _LETTERS.get(meant) or "".join(f"\\x{byte:02X}" for byte in meant.encode())

    return _ESCAPED.sub(written, text)


def unescape(raw: bytes) -> str:
    """Decode a text with its escapes. Raises ApiError for unknown ones, and for bytes that are not UTF-8."""

    def meant(match: re.Match[bytes]) -> bytes:
        written = match.group(1)
        if len(written) == 3:
            return bytes([int(written[1:], 16)])
        if (found := _BYTES.get(written)) is None:
            known = r"\\ \n \r \t \0 \' \" and \xHH"
            raise ApiError(400, f"unknown escape at byte {match.start()} of the text; there are {known}")
        return found

    try:
        return _ESCAPE.sub(meant, raw).decode()
    except UnicodeDecodeError:
        raise ApiError(400, "this is not UTF-8") from None


def message(word: str, text: str) -> bytes:
    """Return a line of ``word`` and any text."""
    return f"{word} {escape(text)}\n".encode("utf-8", "replace")


def kv(key: str, value: Any) -> bytes:
    """Return ``KV key=value``: texts are quoted unless they are one word, sequences are JSON."""

    def plain(value: Any) -> Any:  # what JSON can say: minus infinity is false, as in ``logit_bias``
        if isinstance(value, tuple | list):
            return [plain(item) for item in cast("Sequence[Any]", value)]
        return False if value == -math.inf else value

    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = f"{value:f}"
    elif isinstance(value, tuple | list):
        text = escape(json.dumps(plain(value), ensure_ascii=False))
    elif isinstance(value, int) or _WORD.fullmatch(value):
        text = str(value)
    else:
        text = '"' + escape(value).replace('"', '\\"') + '"'
    return f"KV {key}={text}\n".encode("utf-8", "replace")


class Pipe:
    """Two directions of bytes to one client, cut into lines. Who does not read for ``seconds`` is let go."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        self._reader, self._writer, self._seconds = reader, writer, seconds
        self.held = bytearray()  # what came and was not taken

    async def more(self) -> bool:
        """Wait for bytes; false where none will come."""
        try:
            data = await self._reader.read(1 << 16)
        except OSError:
            data = b""
        self.held += data
        return bool(data)

    async def until(self, end: bytes, most: int = MOST) -> bytes | None:
        """Read up to and including the next ``end``; return the bytes before it, None after a disconnect.

        Raises Fatal for more than ``most`` bytes.
        """
        looked = 0
        while (at := self.held.find(end, looked)) < 0 and len(self.held) <= most:
            looked = len(self.held)
            if not await self.more():
                return None
        if not 0 <= at <= most:
            raise Fatal(f"more than {most} bytes without an end")
        taken = bytes(self.held[:at])
        del self.held[: at + len(end)]
        return taken

    async def line(self) -> bytes | None:
        """Return the next line less its end; one without an end where nothing follows it, None after that."""
        line = await self.until(b"\n")
        if line is None and self.held:
            line = bytes(self.held)
            self.held.clear()
        return None if line is None else line.removesuffix(b"\r")

    async def write(self, data: bytes) -> None:
        """Send whole lines; wait for a slow client. Raises Gone for one that stopped reading."""
        if self._writer.is_closing():
            raise Gone
        self._writer.write(data)
        try:
            async with asyncio.timeout(self._seconds):
                await self._writer.drain()
        except (OSError, TimeoutError):
            raise Gone from None

    async def close(self, last: bytes = b"") -> None:
        """Send ``last``, and let what was written arrive, for a moment."""
        if last and not self._writer.is_closing():
            self._writer.write(last)
        self._writer.close()
        try:
            async with asyncio.timeout(min(self._seconds, 5.0)):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()


@asynccontextmanager
async def open_standard(seconds: float) -> AsyncGenerator[Pipe]:
    """Open standard input and output, which may be files, pipes or a terminal: threads read and write."""
    ours, theirs = socket.socketpair()

    def copy_in() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(0, 1 << 16):
                theirs.sendall(data)
            theirs.shutdown(socket.SHUT_WR)

    def copy_out() -> None:
        with contextlib.suppress(OSError):
            while data := theirs.recv(1 << 16):
                while data:
                    data = data[os.write(1, data) :]
        theirs.close()  # who writes finds that nobody reads

    writing = threading.Thread(target=copy_out, daemon=True)
    writing.start()
    threading.Thread(target=copy_in, daemon=True).start()
    pipe = Pipe(*await asyncio.open_connection(sock=ours), seconds)
    yield pipe
    await pipe.close()
    await asyncio.to_thread(writing.join)
