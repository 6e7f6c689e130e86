"""The HTTP server beside the terminal app: both on one engine. Puts the two together and decides nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from srbwriter.cli.exits import Failure
from srbwriter.cli.serve import server_settings
from srbwriter.config import Settings

if TYPE_CHECKING:
    from srbwriter.engine.engine import Engine
    from srbwriter.session import Session
    from srbwriter.tui.start import Beside

_SECONDS_TO_END = 5.0


def server_beside(settings: Settings) -> Beside:
    """What the terminal app runs beside each session: a server on the session's engine, and its address.

    Raises Failure when it is entered and the address cannot be used.
    """

    @contextlib.contextmanager
    def beside(session: Session) -> Generator[str]:
        from srbwriter import server
        from srbwriter.server.auth import ServerError

        try:
            handle = server.start_in_thread(SessionLoader(session), server_settings(settings))
        except ServerError as error:
            raise Failure(str(error)) from error
        try:
            yield handle.url
        finally:
            handle.stop(_SECONDS_TO_END)

    return beside


class SessionLoader:
    """The load of the model that a session uses now; the writer may change the model while it is served."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def name(self) -> str:
        return self._session.loader.name

    @property
    def state(self) -> str:
        return self._session.loader.state

    @property
    def engine(self) -> Engine | None:
        return self._session.loader.engine

    @property
    def error(self) -> Exception | None:
        return self._session.loader.error
