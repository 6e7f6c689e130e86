"""One HTTP connection as uvicorn serves it, with a deadline for the head of each request.

uvicorn closes connections that are silent after an answer, and no others: one that says nothing at all, or a
byte now and then, would hold its place for ever. Bodies have a deadline where they are read.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

_WORDS = b"the head of the request did not come in time"
_HEAD = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: "
_TOO_SLOW = b"%b%d\r\n\r\n%b" % (_HEAD, len(_WORDS), _WORDS)


def protocol(seconds: float) -> type[asyncio.Protocol]:
    """The class of a server's connections; a head may take ``seconds`` to come."""

    class Connection(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None
        _begun = False  # whether anything of the head has come

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_head()

        def data_received(self, data: bytes) -> None:
            self._begun = True
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore
                self._head_came()
            elif self._deadline is None:
                self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_came()
            super().connection_lost(exc)

        def _await_head(self) -> None:
            self._deadline = self.loop.call_later(seconds, self._give_up)

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

    return Connection
