"""What none of the panes shows, and the ways on that are likely enough, for a session.

The fork is asked of the engine once for a round; where its first tokens were drawn, the answer stands in the
cache. Ways are followed on a thread, level by level, and shown as a round of branches that have ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from srbwriter.config import Settings, keys
from srbwriter.engine.exploring import Exploration, Exploring, Fork, Opening, Way, ask, fork_of, question
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineError, NoModel, NotSupported, Request
from srbwriter.story import NodeId, ReadOnlyStory

from .tokens import wait_a_moment

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

    from . import Session

log = logging.getLogger(__name__)

_SECONDS = 600.0  # that one level may take; a long story has to be read first


def exploring_of(settings: Settings) -> Exploring:
    """Which ways are followed, as the settings say."""
    return Exploring(
        settings[keys.EXPLORE_CUTOFF], settings[keys.EXPLORE_MULTIPLIER], settings[keys.EXPLORE_DEPTH],
        settings[keys.EXPLORE_BEAMS], settings[keys.EXPLORE_ENDS],
    )  # fmt: skip


@dataclass(slots=True)
class _Question:
    """What could follow the prompt of ``about`` and some more tokens."""

    about: Generation
    after: tuple[int, ...]
    told: Generation
    spelt: Future[object] | None = None  # done when it is known what the tokens told of write


class Explorer:
    """Looks beyond the panes of ``session``.

    Args:
        lock: the session's.
        would_ask: the request of a round at the current node; None where nothing can be asked.
        show: makes a round of ways and shows it.
        add: lets another branch begin with tokens, and returns its index.
    """

    def __init__(
        self, session: Session, lock: threading.RLock, would_ask: Callable[[], Request | None],
        show: Callable[[Sequence[Way]], None], add: Callable[[tuple[int, ...]], int],
    ) -> None:  # fmt: skip
        self._session, self._lock = session, lock
        self._would_ask, self._show, self._add = would_ask, show, add
        self.wanted = Exploring()
        self._asked: _Question | None = None
        self._running: Exploration | None = None
        self.problem: Exception | None = None
        """Why the last exploration came to nothing."""

    # ---- the fork

    def fork(self) -> Fork | None:
        """How the branches in view lie among what could follow; None while, or where, that is not known."""
        current, engine = self._session.round, self._session.engine
        generation = current.generation if current is not None else None
        if current is None or generation is None or engine is None or engine.lacks("next_logprobs"):
            return None
        if self._asked is None or self._asked.about is not generation:
            if not current.taken_up or not any(branch.buffer.ids for branch in generation.branches):
                return None
            self._ask(engine, generation, ())
        asked = self._asked
        if asked is None or not asked.told.done or not self._is_spelt(engine, asked):
            return None
        found = fork_of(generation, asked.after, asked.told.next_logprobs, engine)
        if found.further is None:
            return found
        self._ask(engine, generation, found.further)
        return None

    def _ask(self, engine: Backend, generation: Generation, after: tuple[int, ...]) -> None:
        try:
            self._asked = _Question(generation, after, ask(engine, question(generation, after)))
        except EngineError as error:
            self._asked = None
            log.warning("what could follow is not known: %s", error)

    def _is_spelt(self, engine: Backend, asked: _Question) -> bool:
        """Whether the engine has said what the tokens write. An engine elsewhere is not waited for."""
        ids = [token for token, _ in asked.told.next_logprobs]
        if asked.spelt is None and ids:
            asked.spelt = self._session.tokens.later(lambda: engine.pieces(ids))
            wait_a_moment(asked.spelt)
        return asked.spelt is not None and asked.spelt.done() and asked.spelt.exception() is None

    def open(self, opening: Opening) -> int:
        """Let another branch begin with what is not shown, which it does not choose itself; its index.

        Raises EngineError.
        """
        with self._lock:
            after = self._asked.after if self._asked is not None else ()
            index = self._add((*after, opening.token))
            current = self._session.round
            assert current is not None
            current.forced.add(index)
            return index

    # ---- ways

    @property
    def words(self) -> str:
        """How far an exploration is; empty while none runs."""
        running = self._running
        if running is None:
            return ""
        return f"exploring: {running.tokens} of {self.wanted.depth} tokens, {len(running.ways)} ways"

    @property
    def working(self) -> bool:
        return self._running is not None

    def begin(self) -> None:
        """Follow the likely ways on from the current node; they become the round that is shown.

        Raises EngineError where that cannot be, and ReadOnlyStory where no branch could be kept.
        """
        session = self._session
        if session.story.read_only is not None:
            raise ReadOnlyStory(session.story.read_only)
        if why := session.lacks("next_logprobs"):
            raise NotSupported(why)
        with self._lock:
            session.stop_all()
            session.keep()
            session.story.end_typing()
            first, engine = self._would_ask(), session.engine
            if first is None or engine is None:
                raise NoModel("the model is still loading, or there is none")
            wanted = replace(self.wanted, beams=min(self.wanted.beams, engine.max_branches))
            running = self._running = Exploration(first, wanted, engine.eog)
            self.problem = None
            given = running, engine, session.node
        threading.Thread(target=self._run, args=given, name="srbwriter-explore", daemon=True).start()

    def stop(self) -> None:
        """Give up what is under way; nothing is shown of it."""
        self._running = None

    def _run(self, running: Exploration, engine: Backend, node: NodeId) -> None:
        session = self._session
        try:
            while self._running is running and (asked := running.requests()):
                generations = [ask(engine, request) for request in asked]
                for generation in generations:
                    generation.wait(_SECONDS)
                running.hear(generations, engine)
            with self._lock:
                if self._running is running and session.node == node:
                    self._show([way for way in running.ways if way.text.strip()])
        except Exception as error:  # a thread's; whoever looks is told
            log.warning("the exploration is given up: %s", error)
            self.problem = error
        finally:
            if self._running is running:
                self._running = None


def odds_words(share: float) -> str:
    """The same for what may be very rare: ``3 %``, ``1:1200``, ``1:45k``, ``1:3M``."""
    if share >= 0.005:
        return probability_words(share)
    ways, unit = 1 / max(share, 1e-300), 0
    while ways >= 9999.5 and unit < 3:
        ways, unit = ways / 1000, unit + 1
    return f"1:{ways:.0f}{('', 'k', 'M', 'G')[unit]}" if ways < 1e4 else "1:∞"


def probability_words(share: float) -> str:
    """A probability as people read it: ``9 %``, ``0.4 %``."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 1 else f"{percent:.1g} %" if percent >= 0.01 else "0 %"
