"""One HTTP connection: deadlines of heads, and clients that close only their own side.

uvicorn closes connections that are silent after an answer, and no others: one that says nothing at all, or a
byte now and then, would hold its place for ever. And it ends a request as soon as its client closes its side
of the connection, though that client may still read.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

UVICORN = "0.54"
"""The line of uvicorn that this module was written against: its protocol class is not public."""

_WORDS = b"the head of the request did not come in time"
_HEAD = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: "
_TOO_SLOW = b"%b%d\r\n\r\n%b" % (_HEAD, len(_WORDS), _WORDS)

_RESERVE = 40  # descriptors for stories, models, pages and threads' own
_LEAST = 8
_LOOK = 0.25  # seconds between looks whether the client of a half-closed connection is there


def most_connections() -> int:
    """Return how many connections the process may have, by what it may open and has open now."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 65_536
    try:
        opened = len(os.listdir("/dev/fd"))
    except OSError:
        opened = _RESERVE
    return max(limit - opened - _RESERVE, _LEAST)


class _ServerSide(h11.Connection):
    """Can send a byte of an answer before there is more of it to be sent.

    Before the status is known that is the beginning of the status line, and between chunks a nought before
    the length of the next one.
    """

    _BEGINNING = b"HTTP/1.1 "
    _NOUGHTS = 8  # before a length of 8 digits; some clients read 16 at most
    _early = 0  # bytes that were sent since the last event
    _chunked = False

    def send_early(self) -> bytes:
        """Return the next byte to be sent, nothing where none can be."""
        ahead = b"0" * self._NOUGHTS * self._chunked if self.our_state is h11.SEND_BODY else self._BEGINNING
        byte = ahead[self._early : self._early + 1]
        self._early += len(byte)
        return byte

    def send(self, event: h11.Event) -> Any:
        data: bytes | None = super().send(event)
        if not data:
            return data
        early, self._early = self._early, 0
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            return data
        self._chunked = b"transfer-encoding: chunked" in data.lower()
        assert data.startswith(self._BEGINNING)
        return data[early:]


class _Connection(H11Protocol):
    """One of ``most`` connections of a server, whose heads have so many ``seconds`` to come."""

    seconds: float
    most: int
    _deadline: asyncio.TimerHandle | None = None
    _begun = False  # whether anything of the head has come
    _half_closed = False  # whether the client will send nothing more
    _next_look: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn: _ServerSide = _ServerSide(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:  # those that are silent leave at their deadline
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        self._begun = True
        super().data_received(data)
        became_socket = self.transport.get_protocol() is not self
        if became_socket or (self.cycle is not None and not self.cycle.response_complete):  # pyright: ignore
            self._head_came()
        elif self._deadline is None:
            self._await_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection while a whole request is answered. TLS has no half-closed connections."""
        self._half_closed = self._answering() and self.scheme == "http"
        if self._half_closed and self._next_look is None:
            self._look()
        return self._half_closed

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._half_closed and not self._answering() and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        if self._next_look is not None:
            self._next_look.cancel()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        """Whether a complete request has been received and is being answered."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete  # pyright: ignore

    def _look(self, looks: int = 0) -> None:
        """Close a half-closed connection whose client has left altogether.

        Closing one side looks like closing both until something is sent: then a client that has left
        answers with a reset. The next bytes of the answer serve for that, at growing distances.
        """
        if self.transport.is_closing():
            return
        if looks & (looks - 1) == 0 and self._answering():
            self.transport.write(self.conn.send_early())
        opened = self.transport.get_extra_info("socket")
        if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        else:
            self._next_look = self.loop.call_later(_LOOK, self._look, looks + 1)

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.seconds, self._give_up)

    def _head_came(self) -> None:
        self._begun = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self._begun and not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
        self.transport.close()


def protocol(seconds: float, most: int) -> type[asyncio.Protocol]:
    """Return the class of a server's connections, ``most`` at once; a head may take ``seconds`` to come."""
    return type("Connection", (_Connection,), {"seconds": seconds, "most": most})
