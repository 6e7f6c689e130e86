"""The base of instruments: what a session can do with branches beside writing and picking them.

An instrument is one class in a module here, and one line in ``session.py``: the session calls its methods on
events. It imports no other instrument. Functions over a session need no class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self, TypeVar

from srbwriter.engine.types import EngineClosed

if TYPE_CHECKING:
    from .round import Round
    from .session import Session

Result = TypeVar("Result")


class Instrument:
    """An instrument of a session. Only :meth:`close` may wait for the engine."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._ended = False
        self._worker: threading.Thread | None = None

    @classmethod
    def of(cls, session: Session) -> Self:
        """Return this instrument of ``session``."""
        return next(one for one in session.instruments if isinstance(one, cls))

    def round_begins(self, current: Round) -> None:
        """Handle a submitted round, ``current``, which is shown from now on. The session's lock is held."""

    def text_changed(self) -> None:
        """Handle typing, a verb, or a loaded model, each of which changes the next request."""

    def model_changed(self) -> None:
        """Handle a change of the model. The session's lock is held."""

    def close(self) -> None:
        """Stop; the engine is still open. The session's lock is not held."""

    def later(self, act: Callable[[], Result]) -> Future[Result]:
        """Run ``act`` on a thread of this instrument, because a remote engine may be slow."""
        done = Future[Any]()
        if self._ended:
            done.set_exception(EngineClosed("the session was closed"))
            return done
        self._work.put((done, act))
        if self._worker is None:
            name = f"srbwriter-{type(self).__name__.lower()}"
            self._worker = threading.Thread(target=self._do_work, name=name, daemon=True)
            self._worker.start()
        return done

    def end_worker(self) -> None:
        """Let the thread end after its work: a waiting thread would keep the session in memory."""
        self._ended = True
        self._work.put(None)

    def _do_work(self) -> None:
        while (given := self._work.get()) is not None:
            done, act = given
            try:
                done.set_result(act())
            except Exception as error:  # the future holds the exception
                done.set_exception(error)
