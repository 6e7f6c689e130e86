"""Prefetch: the rounds after likely picks are generated, one after the other, while the writer reads.

When a round is over, the requests that :meth:`Session.generate` would submit after each likely pick are
submitted in the background, within a budget. A pick takes over the generation of an equal request; all
others are discarded, also when anything changes that would change the request. Prefetched text is not in the
story.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, TypeVar, get_args

from srbwriter.config import Key, keys
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import BranchState, EngineError, FinishReason, Priority, Request, Stop
from srbwriter.story import StoryError
from srbwriter.story.context import ContextError

from .instrument import Desk, Instrument
from .likeness import Duplicates

if TYPE_CHECKING:
    from .rounds import Round

log = logging.getLogger(__name__)

T = TypeVar("T")
Mode: TypeAlias = keys.LookAhead
MODES: tuple[Mode, ...] = get_args(Mode)
BATTERY = "the machine runs from its battery"
_POWER_SECONDS = 20.0  # that a reading of the battery is valid
_USUAL_TOKENS = 256  # assumed length of a branch without a limit, for the progress


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is prefetched: for which panes, tokens a round, and the mode on battery power."""

    mode: Mode = "off"
    tokens: int = 2048
    battery: Mode = "off"


class SettingValues(Protocol):
    """The settings, and the modes changed since the start."""

    def __getitem__(self, key: Key[T], /) -> T: ...


def budget_of(settings: SettingValues) -> Budget:
    """Return the budget from the settings."""
    return Budget(
        settings[keys.LOOK_AHEAD], settings[keys.LOOK_AHEAD_TOKENS], settings[keys.LOOK_AHEAD_BATTERY]
    )


@dataclass(slots=True, eq=False)
class Ahead:
    """The prefetched round after a pick of branch ``index``, or of its first ``upto`` characters."""

    index: int
    upto: int | None
    request: Request
    generation: Generation
    held: bool = False  # a paused branch stays paused
    duplicates: Duplicates = field(default_factory=Duplicates)
    settled: bool = False  # it is written, and no branch of it is rolled again

    @property
    def tokens(self) -> int:
        """Number of tokens generated so far."""
        return sum(len(branch.buffer.ids) for branch in self.generation.branches)

    @property
    def share(self) -> float:
        """The finished share of the round; 1.0 once no duplicate in it is written again either."""
        if self.generation.done and self.settled:
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

    name: ClassVar[str] = "look_ahead"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._budget = Budget()
        self._rounds: tuple[Ahead, ...] = ()
        self._focus: tuple[int, int | None] = (0, None)
        self._seen: object = None  # the request of the current round when the focus was last reported
        self._followed: list[Generation] = []  # of the round whose picks are prefetched
        self._spent = 0  # discarded tokens of this round
        self.written = self.taken = 0
        """Prefetched tokens since the session began, and those of them that a pick used."""
        self._power = float("-inf"), False  # time of the last reading, whether on battery power
        self._holding = threading.Lock()  # serializes pause and resume with a pick that takes over
        self._wake = threading.Condition()
        self._due = self._closing = False
        self._thread: threading.Thread | None = None

    # ---- for interfaces

    @property
    def budget(self) -> Budget:
        return self._budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        before, self._budget = self._budget, budget
        if budget == before:
            return
        if budget.mode != "off" or self._thread is not None:
            self.look(always=True)

    @property
    def mode(self) -> Mode:
        """The mode of the budget, or the lower one for battery power."""
        mode, battery = self._budget.mode, self._budget.battery
        if mode == "off" or MODES.index(battery) >= MODES.index(mode) or not self._on_battery():
            return mode
        return battery

    @property
    def why_not(self) -> str:
        """Why nothing is prefetched despite a budget; empty if there is no obstacle."""
        if self._budget.mode == "off":
            return ""
        return self._desk.capabilities.reason_for("look_ahead") or (BATTERY if self.mode == "off" else "")

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
        current = self._desk.round
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
        desk = self._desk
        self._focus = index, upto
        if self._budget.mode == "off":
            return
        seen = index, upto, desk.n, desk.sampling, desk.stop, desk.variety
        if seen != self._seen:
            self._seen = seen
            self.look()

    # ---- events of the session

    def look(self, always: bool = False) -> None:
        """Update the requests after a change. Returns at once."""
        if self._budget.mode == "off" and not always:
            return
        with self._wake:
            self._due = True
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="srbwriter-ahead", daemon=True)
                self._thread.start()
            self._wake.notify()

    def give_way(self) -> None:
        """Pause the prefetch: a key was pressed, and its work goes first."""
        engine = self._desk.engine
        if engine is not None and self.working:
            engine.stand_back()

    def text_changed(self) -> None:
        """Update the requests; while typed words are not in the story yet, no prefetch begins."""
        if self._budget.mode != "off" and (self._rounds or not self._desk.typing.text_waits):
            self.look()

    def round_begins(self, current: Round) -> None:
        self.look()

    def model_changed(self) -> None:
        self.drop()

    def find_written(self, request: Request) -> Generation | None:
        """Return the prefetched generation of exactly ``request``, or None; discard all others."""
        found = next((a for a in self._rounds if a.request == request and a.generation.error is None), None)
        self._keep(lambda ahead: ahead is found)
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

    def drop(self) -> None:
        """Discard all prefetched rounds. Call it under the session's lock."""
        self._keep(lambda ahead: False)

    def close(self) -> None:
        """Stop, and discard all prefetched rounds."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        with self._desk.state_lock:
            self.drop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10)

    # ---- on a thread of its own

    def _run(self) -> None:
        while self._wait():
            try:
                with self._desk.state_lock:
                    self._write()
            except (EngineError, StoryError, ContextError) as error:
                log.info("nothing is written ahead: %s", error)
            except Exception:
                log.exception("nothing is written ahead")

    def _wait(self) -> bool:
        with self._wake:
            while not self._due and not self._closing:
                self._wake.wait()
            self._due = False
            return not self._closing

    def _write(self) -> None:
        """Discard outdated generations, and submit the next request."""
        desk, current, mode = self._desk, self._desk.round, self.mode
        generations = current.generations if current is not None else []
        able = desk.capabilities.has("look_ahead")
        if mode == "off" or desk.typing.text_waits or not able or self._closing:
            self.drop()
            return
        over = bool(generations) and all(generation.done for generation in generations)
        if over:
            desk.keep()  # as a pick would
        self._keep(self._holds)
        if current is None or not generations or desk.engine is None:
            return
        self._follow(generations)
        if not over:
            return
        written: Ahead | None = None
        if self.spent >= self._budget.tokens:
            for ahead in self._rounds:
                ahead.settled = ahead.generation.done
        else:
            known = {(ahead.index, ahead.upto): ahead for ahead in self._rounds}
            for pick in self._likely(current, mode):
                written = known.get(pick) or self._begin(*pick)
                if written is None:
                    continue
                written.settled = written.generation.done and not self._renew(written)
                if not written.settled:
                    break
        with self._holding:
            for ahead in self._rounds:
                ahead.hold(ahead is not written)

    def _follow(self, generations: list[Generation]) -> None:
        """Look again when one of ``generations``, those of the current round, is done."""

        def follow(generation: Generation) -> None:
            generation.add_listener(lambda: self.look() if generation.done else None)

        if generations[:1] != self._followed[:1]:
            self._spent = 0
        for generation in generations:
            if generation not in self._followed:
                follow(generation)
        self._followed = generations

    def _likely(self, current: Round, mode: Mode) -> list[tuple[int, int | None]]:
        """Return picks, the likeliest first."""
        texts = [branch.text for branch in current.branches]
        whole = [
            i for i, branch in enumerate(current.branches) if texts[i].strip() and _may_be_picked(branch)
        ]
        focused, upto = self._focus
        likely: list[tuple[int, int | None]] = []
        if focused in whole:
            if upto is not None and 0 < upto < len(texts[focused]):
                likely.append((focused, upto))
            likely.append((focused, None))
        if mode == "all":
            likely += [(index, None) for index in whole if index != focused]
        return likely

    def _begin(self, index: int, upto: int | None) -> Ahead | None:
        engine, request = self._desk.engine, self._desk.would_ask(index, upto)
        if request is None or engine is None:
            return None
        generation = engine.submit(replace(request, priority=Priority.BACKGROUND))
        ahead = Ahead(index, upto, request, generation)
        self._rounds += (ahead,)
        generation.add_listener(lambda: self._on_event(ahead))
        return ahead

    def _renew(self, ahead: Ahead) -> bool:
        """Roll near-duplicate branches again; return whether there were any."""
        if not self._desk.variety.renew:
            return False
        branches = ahead.generation.branches
        ahead.duplicates.look(branches)
        chosen = ahead.duplicates.to_renew(branches)
        for index in chosen:
            self._gone(len(branches[index].buffer.ids))
            ahead.duplicates.renew(branches[index])
        return bool(chosen)

    def _gone(self, tokens: int) -> None:
        """Count discarded tokens of the budget."""
        self._spent += tokens
        self.written += tokens

    def _on_event(self, ahead: Ahead) -> None:
        """Handle news of a generation, on the engine's thread."""
        if ahead.generation.done:
            self.look()
        elif self.spent >= self._budget.tokens:
            with self._holding:
                if ahead in self._rounds:  # no pick has taken it over
                    ahead.hold(True)

    # ---- inside

    def _holds(self, ahead: Ahead) -> bool:
        """Return whether the request is still the one that a pick would submit."""
        if ahead.generation.error is not None:
            return False
        return ahead.request in (
            self._desk.would_ask(ahead.index, ahead.upto),
            self._desk.would_ask(None, None),
        )

    def _keep(self, holds: Callable[[Ahead], bool]) -> None:
        kept = tuple(ahead for ahead in self._rounds if holds(ahead))
        gone = [ahead for ahead in self._rounds if ahead not in kept]
        self._rounds = kept
        for ahead in gone:
            self._gone(ahead.tokens)
            ahead.drop()

    def _on_battery(self) -> bool:
        at, battery = self._power
        now = time.monotonic()
        if now - at > _POWER_SECONDS:
            battery = on_battery()
            self._power = now, battery
        return battery


def _may_be_picked(branch: Branch) -> bool:
    return branch.state is BranchState.DONE and branch.finish_reason is not FinishReason.KILLED


def on_battery() -> bool:
    """Return whether this machine runs on battery power; False if unknown."""
    import psutil

    try:
        found = psutil.sensors_battery()
    except (AttributeError, OSError, RuntimeError, NotImplementedError):  # this system reports no battery
        return False
    return found is not None and found.power_plugged is False
