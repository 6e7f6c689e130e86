"""Prefetch: the rounds after likely picks are generated, one after the other, while the writer reads.

When a round is over, the requests that :meth:`Session.generate` would submit after each likely pick are
submitted in the background, within a budget. A pick takes over the generation of an equal request; all
others are discarded, also when anything changes that would change the request. Prefetched text is not in the
story.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, get_args

from srbwriter import launch
from srbwriter.config import keys
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import BranchState, EngineError, FinishReason, Priority, Request, Stop
from srbwriter.story import StoryError
from srbwriter.story.context import ContextError

from .instrument import Instrument

if TYPE_CHECKING:
    from .round import Round
    from .session import Session

log = logging.getLogger(__name__)

Mode: TypeAlias = keys.LookAhead
MODES: tuple[Mode, ...] = get_args(Mode)
_USUAL_TOKENS = 256  # assumed length of a branch without a limit, for the progress


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is prefetched: for which panes, and tokens a round."""

    mode: Mode = "off"
    tokens: int = 2048


def budget_of(settings: launch.Values) -> Budget:
    """Return the budget from the settings."""
    return Budget(settings[keys.LOOK_AHEAD], settings[keys.LOOK_AHEAD_TOKENS])


@dataclass(slots=True, eq=False)
class Ahead:
    """The prefetched round after a pick of branch ``index``, or of its first ``upto`` characters."""

    index: int
    upto: int | None
    request: Request
    generation: Generation
    held: bool = False

    @property
    def tokens(self) -> int:
        """Number of tokens generated so far."""
        return sum(len(branch.buffer.ids) for branch in self.generation.branches)

    @property
    def share(self) -> float:
        """The finished share of the round."""
        if self.generation.done:
            return 1.0
        stop = self.request.stop
        limit = stop.max_tokens if isinstance(stop, Stop) else None
        return min(0.99, self.tokens / (self.request.n * (limit or _USUAL_TOKENS)))

    @property
    def working(self) -> bool:
        return not self.held and not self.generation.done

    def hold(self, held: bool) -> None:
        """Pause or resume it."""
        if held is not self.held:
            self.held = held
            for branch in self.generation.branches:
                if branch.live:
                    branch.pause() if held else branch.resume()

    def drop(self) -> None:
        """Discard it."""
        try:
            for branch in self.generation.branches:
                branch.kill()
        except EngineError as error:  # its engine is closed
            log.debug("a prefetched round cannot be discarded: %s", error)


class LookAhead(Instrument):
    """Prefetches the rounds after likely picks of a session, within a budget."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._budget = Budget()
        self._rounds: tuple[Ahead, ...] = ()
        self._focus: tuple[int, int | None] = (0, None)
        self._seen: object = None  # the request of the current round when the focus was last reported
        self._followed: Generation | None = None  # the round whose picks are prefetched
        self._spent = 0  # discarded tokens of this round
        self.written = self.taken = 0
        """Prefetched tokens since the session began, and those of them that a pick used."""
        self._holding = threading.Lock()  # serializes pause and resume with a pick that takes over
        self._due = False

    # ---- for interfaces

    @property
    def budget(self) -> Budget:
        return self._budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        before, self._budget = self._budget, budget
        if budget != before:
            self._look()

    @property
    def why_not(self) -> str:
        """Why nothing is prefetched despite a budget; empty if there is no obstacle."""
        if self._budget.mode == "off":
            return ""
        return self._session.capabilities.reason_for("look_ahead")

    @property
    def spent(self) -> int:
        """Tokens of the budget that this round has used."""
        return self._spent + sum(ahead.tokens for ahead in self._rounds)

    @property
    def working(self) -> bool:
        """Whether a prefetch is running."""
        return any(ahead.working for ahead in self._rounds)

    def share(self, index: int, upto: int | None = None) -> float | None:
        """Return the finished share of the round after a pick, up to 1.0; None if there is none.

        While a branch is rolled again, the continuation of its earlier text does not count.
        """
        current = self._session.round
        if current is None or index >= len(current.branches) or current.branches[index].live:
            return None
        found = (
            a.share for a in self._rounds if (a.index, a.upto) == (index, upto) and not a.generation.error
        )
        return next(found, None)

    def focus(self, index: int, upto: int | None = None) -> None:
        """Record that the writer reads branch ``index``, and that a pick would take ``upto`` characters.

        Interfaces call this often.
        """
        session = self._session
        self._focus = index, upto
        seen = index, upto, session.n, session.sampling, session.stop, session.variety
        if self._budget.mode != "off" and seen != self._seen:
            self._seen = seen
            self._look()

    def give_way(self) -> None:
        """Pause the prefetch: a key was pressed, and its work goes first."""
        engine = self._session.engine
        if engine is not None and self.working:
            engine.stand_back()

    # ---- events of the session

    def text_changed(self) -> None:
        if self._budget.mode != "off":
            self._look()

    def round_begins(self, current: Round) -> None:
        self.text_changed()

    def model_changed(self) -> None:
        self._drop_others()

    def close(self) -> None:
        with self._session.state_lock:
            self._budget = Budget()
            self._drop_others()

    def find_written(self, request: Request) -> Generation | None:
        """Return the prefetched generation of exactly ``request``, or None; discard all others."""
        found = next((a for a in self._rounds if a.request == request and a.generation.error is None), None)
        self._drop_others(lambda ahead: ahead is found)
        with self._holding:
            self._rounds, self._spent = (), 0
            if found is not None:
                found.hold(False)
        if found is None:
            return None
        self.taken += found.tokens
        self.written += found.tokens
        found.generation.promote()
        return found.generation

    # ---- on the instrument's thread

    def _look(self) -> None:
        """Update the requests after a change. Returns at once."""
        if not self._due:
            self._due = True
            self.later(self._update)

    def _update(self) -> None:
        self._due = False
        try:
            with self._session.state_lock:
                self._write()
        except (EngineError, StoryError, ContextError) as error:
            log.info("nothing is written ahead: %s", error)
        except Exception:
            log.exception("nothing is written ahead")

    def _write(self) -> None:
        """Discard outdated generations, and submit the next request."""
        session, current, mode = self._session, self._session.round, self._budget.mode
        generation = current.generation if current is not None else None
        if mode == "off" or not session.capabilities.has("look_ahead"):
            self._drop_others()
            return
        if generation is not None and generation.done:
            session.keep()  # as a pick would
        would_ask = session.would_ask
        self._drop_others(
            lambda ahead: (
                ahead.generation.error is None
                and ahead.request in (would_ask(ahead.index, ahead.upto), would_ask(None, None))
            )
        )
        if current is None or generation is None or session.engine is None:
            return
        if generation is not self._followed:
            self._followed, self._spent = generation, 0
            generation.add_listener(lambda: self._look() if generation.done else None)
        if not generation.done:
            return
        written: Ahead | None = None
        if self.spent < self._budget.tokens:
            known = {(ahead.index, ahead.upto): ahead for ahead in self._rounds}
            for pick in self._likely(current, mode):
                written = known.get(pick) or self._begin(*pick)
                if written is not None and not written.generation.done:
                    break
        with self._holding:
            for ahead in self._rounds:
                ahead.hold(ahead is not written)

    def _likely(self, current: Round, mode: Mode) -> list[tuple[int, int | None]]:
        """Return picks, the likeliest first."""
        whole = [
            branch.index for branch in current.branches
            if branch.text.strip() and branch.state is BranchState.DONE
            and branch.finish_reason is not FinishReason.KILLED
        ]  # fmt: skip
        focused, upto = self._focus
        likely: list[tuple[int, int | None]] = []
        if focused in whole:
            if upto is not None and 0 < upto < len(current.branches[focused].text):
                likely.append((focused, upto))
            likely.append((focused, None))
        if mode == "all":
            likely += [(index, None) for index in whole if index != focused]
        return likely

    def _begin(self, index: int, upto: int | None) -> Ahead | None:
        engine, request = self._session.engine, self._session.would_ask(index, upto)
        if request is None or engine is None:
            return None
        generation = engine.submit(replace(request, priority=Priority.BACKGROUND))
        ahead = Ahead(index, upto, request, generation)
        self._rounds += (ahead,)

        def on_event() -> None:  # on the engine's thread
            if generation.done:
                self._look()
            elif self.spent >= self._budget.tokens:
                with self._holding:
                    if ahead in self._rounds:  # no pick has taken it over
                        ahead.hold(True)

        generation.add_listener(on_event)
        return ahead

    def _drop_others(self, holds: Callable[[Ahead], bool] = lambda _: False) -> None:
        """Discard the prefetched rounds that do not hold. The session's lock is held."""
        gone = [ahead for ahead in self._rounds if not holds(ahead)]
        self._rounds = tuple(ahead for ahead in self._rounds if ahead not in gone)
        for ahead in gone:
            self._spent += ahead.tokens
            self.written += ahead.tokens
            ahead.drop()
