"""The base of instruments: features for branches beside generating and picking them.

An instrument is one module here with one class, and one line in :mod:`srbwriter.session.instruments`. It uses
its session as a :class:`Desk`, which calls its methods on events; the session calls none by name. It imports
no other instrument. Faces get it by its class: ``LookAhead.of(session)``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from srbwriter.engine.types import EngineClosed, Request, Sampling, Stop, Take

if TYPE_CHECKING:
    from srbwriter.config import Settings
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.capabilities import Capabilities
    from srbwriter.engine.generation import Branch, Generation
    from srbwriter.engine.verbs import BranchVerb
    from srbwriter.story import NodeId, Story

    from .prompting import Prompter
    from .rounds import Round, Turn
    from .sampling import Variety
    from .scoring import Paths


Result = TypeVar("Result")
Kind = TypeVar("Kind", bound="Instrument")


class Desk(Protocol):
    """The part of a session that instruments may use; see the session for its documentation."""

    n: int
    sampling: Sampling
    stop: Stop
    variety: Variety
    round: Round | None

    @property
    def story(self) -> Story: ...
    @property
    def engine(self) -> Backend | None: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def prompter(self) -> Prompter: ...
    @property
    def scored(self) -> Paths: ...
    @property
    def state_lock(self) -> threading.RLock: ...
    @property
    def stale(self) -> bool: ...

    def text(self) -> str: ...
    def keep(self) -> None: ...
    def together(self, act: Callable[[], Result]) -> Result: ...
    def generate(self, n: int | None = None, wish: str = "") -> Round: ...
    def reroll_with_wish(self, index: int, wish: str) -> None: ...
    def leave_round(self, act: Callable[[], Result], wait: float = 0.0) -> Result: ...
    def may_write(self) -> None: ...
    def would_ask(self, index: int | None, upto: int | None) -> Request | None: ...
    def begin_round(self, current: Round, takes: tuple[Take, ...] = (), turn: Turn | None = None) -> None: ...
    def take_up(self) -> Generation | None: ...
    def steered(self, index: int) -> Branch: ...
    def steer(self, index: int, verb: BranchVerb, **arguments: Any) -> None: ...
    def cut_at(self, place: int) -> NodeId: ...


class Holder(Protocol):
    """An object with instruments: a session."""

    def instrument(self, kind: type[Kind]) -> Kind: ...


class Instrument:
    """An instrument of a session, which calls it on events. Only :meth:`close` may wait for the engine."""

    name: ClassVar[str]
    """The name of the session's attribute for this instrument, for scripts."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._ended = False
        self._worker: threading.Thread | None = None

    @classmethod
    def of(cls, session: Holder) -> Self:
        """Return this instrument of ``session``."""
        return session.instrument(cls)

    # ---- events of the session

    def configure(self, settings: Settings) -> None:
        """Handle the opening of the session with ``settings``."""

    def round_begins(self, current: Round) -> None:
        """Handle a submitted round, ``current``, which is shown from now on. The session's lock is held."""

    def text_changed(self) -> None:
        """Handle typing, a verb, or a loaded model, each of which changes the next request."""

    def round_ends(self) -> None:
        """Handle the end of the round, stopped or left by the writer. The session's lock is held."""

    def model_changed(self) -> None:
        """Handle a change of the model. The session's lock is held."""

    def close(self) -> None:
        """Stop; the engine is still open. The session's lock is not held."""

    # ---- long work

    @property
    def progress(self) -> str:
        """The progress of long work, as one line of text; empty if there is none."""
        return ""

    def stop(self) -> None:
        """Stop long work; results so far stay."""

    # ---- requests for branches

    def shape(self, request: Request) -> Request:
        """Return ``request`` with the fields of this instrument."""
        return request

    def find_written(self, request: Request) -> Generation | None:
        """Return the generation of ``request`` if it is running or finished already, or None."""
        return None

    # ---- help

    def later(self, act: Callable[[], Result]) -> Future[Result]:
        """Run ``act`` on a thread of this instrument, because a remote engine may be slow."""
        done = Future[Any]()
        if self._ended:
            done.set_exception(EngineClosed("the session was closed"))
            return done
        self._work.put((done, act))
        if self._worker is None:
            self._worker = threading.Thread(target=self._do_work, name=f"srbwriter-{self.name}", daemon=True)
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


def sheet_lines(sheet: str) -> tuple[str, ...]:
    """Return the lines of an edited list, each once, without remarks (``#``)."""
    lines = (" ".join(line.split()) for line in sheet.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
