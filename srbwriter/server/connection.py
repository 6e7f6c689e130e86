"""HTTP connections as uvicorn serves them, with a deadline for heads and a bound on how many there are.

uvicorn closes connections that are silent after an answer, and no others: one that says nothing at all, or
a byte now and then, would hold its place for ever. Bodies have a deadline where they are read. Where the
process may open few files, whoever waits longest without a whole head makes room for the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_WORDS = b"the head of the request did not come in time"
_HEAD = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: "
_TOO_SLOW = b"%b%d\r\n\r\n%b" % (_HEAD, len(_WORDS), _WORDS)
_RESERVE = 40  # descriptors for stories, models, pages and threads' own
_LEAST = 8


class Table:
    """The connections of a server, ``most`` at once.

    Beyond that the oldest without a whole head is closed for each new one; where all have one, it waits.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[int, socket.socket] = {}  # by descriptor; those that were closed until the next look
        self._headless: dict[int, None] = {}  # descriptors, that which waits longest first

    def room(self) -> bool:
        """Whether another may be accepted now. Makes room for the next look where it can."""
        if len(self._open) < self.most:
            return True
        self._open = {number: one for number, one in self._open.items() if one.fileno() == number}
        if len(self._open) < self.most:
            return True
        while self._headless:
            oldest = next(iter(self._headless))
            del self._headless[oldest]
            if oldest in self._open:
                # the loop sees its end and closes it; closing it here would pull it away under the loop
                with contextlib.suppress(OSError):
                    self._open[oldest].shutdown(socket.SHUT_RDWR)
                return False
        return len(self._open) < self.most + _RESERVE // 2  # all are being answered

    def came(self, one: socket.socket) -> None:
        self._open[one.fileno()] = one
        self.waits(one.fileno(), True)

    def waits(self, descriptor: int, waiting: bool) -> None:
        """Whether a connection waits for the head of a request; those that begin to are the youngest."""
        self._headless.pop(descriptor, None)
        if waiting:
            self._headless[descriptor] = None


class Listener(socket.socket):
    """A listening socket that asks its table before it accepts."""

    table: Table | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        if self.table is None:
            return super().accept()
        if not self.table.room():
            raise BlockingIOError  # asyncio looks again once it has closed what was ended
        connection, address = super().accept()
        self.table.came(connection)
        return connection, address


def most_connections() -> int:
    """How many connections the process may have, by what it may open and has open now."""
    if sys.platform == "win32":
        return 4096
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 65_536
    try:
        opened = len(os.listdir("/dev/fd"))
    except OSError:
        opened = _RESERVE
    return max(limit - opened - _RESERVE, _LEAST)


def protocol(seconds: float, table: Table) -> type[asyncio.Protocol]:
    """The class of a server's connections; a head may take ``seconds`` to come."""

    class Connection(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None
        _begun = False  # whether anything of the head has come
        _descriptor = -1

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            opened = transport.get_extra_info("socket")
            self._descriptor = -1 if opened is None else opened.fileno()
            self._await_head()

        def data_received(self, data: bytes) -> None:
            self._begun = True
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore
                self._head_came()
            elif self._deadline is None:
                self._await_head()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.transport.is_closing() and self._deadline is None:
                table.waits(self._descriptor, True)

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_came()
            super().connection_lost(exc)

        def _await_head(self) -> None:
            self._deadline = self.loop.call_later(seconds, self._give_up)

        def _head_came(self) -> None:
            self._begun = False
            table.waits(self._descriptor, False)
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            self._deadline = None
            if self._begun and not self.transport.is_closing():
                self.transport.write(_TOO_SLOW)
            self.transport.close()

    return Connection
