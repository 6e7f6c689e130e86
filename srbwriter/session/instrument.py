"""The base of instruments: features for branches beside generating and picking them.

An instrument is one module here with one class, and one line in :mod:`srbwriter.session.instruments`. It uses
its session as a :class:`Desk`, which calls its methods on events; the session calls none by name. It imports
no other instrument. Faces get it by its class: ``LookAhead.of(session)``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from srbwriter.engine.types import EngineClosed, EngineError, Request, Sampling, Stop, Take

if TYPE_CHECKING:
    from srbwriter.config import Settings
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.capabilities import Capabilities
    from srbwriter.engine.generation import Branch, Generation
    from srbwriter.engine.verbs import BranchVerb
    from srbwriter.story import NodeId, Story

    from .prompting import Prompter
    from .rounds import Round, Turn
    from .sampling import Sweep, Variety
    from .typing import Typing

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Kind = TypeVar("Kind", bound="Instrument")

_PATIENCE = 0.02  # seconds that a face waits for what is there at once, if the model is in this process


class Desk(Protocol):
    """What an instrument may use of its session; all of it is explained there."""

    n: int
    sampling: Sampling
    stop: Stop
    sweep: Sweep | None
    variety: Variety
    round: Round | None

    @property
    def story(self) -> Story: ...
    @property
    def typing(self) -> Typing: ...
    @property
    def engine(self) -> Backend | None: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def prompter(self) -> Prompter: ...
    @property
    def state_lock(self) -> threading.RLock: ...
    @property
    def stale(self) -> bool: ...

    def text(self) -> str: ...
    def keep(self) -> None: ...
    def together(self, act: Callable[[], Result]) -> Result: ...
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
    """What one instrument hears of its session. Nothing of it may wait for the engine, but :meth:`close`."""

    name: ClassVar[str]
    """The attribute of a session that is this instrument, for scripts."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._ended = False
        self._worker: threading.Thread | None = None
        if type(self).text_changed is not Instrument.text_changed:  # a key passes by nobody else
            desk.typing.on_key.append(self.text_changed)

    @classmethod
    def of(cls, session: Holder) -> Self:
        """This instrument of ``session``."""
        return session.instrument(cls)

    # ---- the life of a session

    def configure(self, settings: Settings) -> None:
        """The session was opened with these settings."""

    def round_begins(self, current: Round) -> None:
        """The engine has ``current``, which is shown from now on. The session's lock is held."""

    def text_changed(self) -> None:
        """The writer typed, a verb was done, or the model was loaded: the next request is another one now."""

    def round_ends(self) -> None:
        """The branches are stopped: the writer stops them, or goes elsewhere. The session's lock is held."""

    def model_changed(self) -> None:
        """Another model takes the place of the one in use. The session's lock is held."""

    def close(self) -> None:
        """End for good; the engine is still there. The session's lock is not held."""

    # ---- long work

    @property
    def progress(self) -> str:
        """How far work is that takes a while, in words for one line; empty while there is none."""
        return ""

    def stop(self) -> None:
        """End that work; what is known by then stays."""

    # ---- requests for branches

    def shape(self, request: Request) -> Request:
        """Return ``request`` as it is to be asked."""
        return request

    def find_written(self, request: Request) -> Generation | None:
        """The branches of ``request``, where they are written or being written already."""
        return None

    # ---- help

    def later(self, act: Callable[[], Result]) -> Future[Result]:
        """Do ``act`` on a thread of this instrument: it may take a while, where the model is elsewhere."""
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
        """Let the thread end when it has done what it was given: while it waits, it holds the session."""
        self._ended = True
        self._work.put(None)

    def _do_work(self) -> None:
        while (given := self._work.get()) is not None:
            done, act = given
            try:
                done.set_result(act())
            except Exception as error:  # whoever asked gets it
                done.set_exception(error)


def wait_a_moment(done: Future[Any]) -> None:
    """Wait shorter than a person notices; a slower result is found at the next look."""
    try:
        done.result(_PATIENCE)
    except TimeoutError:
        pass
    except EngineError as error:
        log.info("%s", error)


def sheet_lines(sheet: str) -> tuple[str, ...]:
    """What a sheet lists, each line once; one that begins with ``#`` is a remark."""
    lines = (" ".join(line.split()) for line in sheet.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
