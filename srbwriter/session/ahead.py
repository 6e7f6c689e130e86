"""Writing ahead: the rounds after likely picks, written one after the other while the writer reads.

When a round is over, the requests that :meth:`Session.generate` would submit after each likely pick are
submitted with the priority AHEAD, within a budget. A pick takes over the generation of an equal request; all
others are discarded. Nothing of them is written into the story. They are also discarded when anything changes
that would change the request.
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
from .picks import Learner

if TYPE_CHECKING:
    from .rounds import Round

log = logging.getLogger(__name__)

T = TypeVar("T")
Mode: TypeAlias = keys.LookAhead
MODES: tuple[Mode, ...] = get_args(Mode)
BATTERY = "the machine runs from its battery"
_POWER_SECONDS = 20.0  # that what is known of the battery holds
_USUAL_TOKENS = 256  # of a branch that has no limit, for a guess how far it is


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is written ahead: the panes, the tokens of a round, and the limit on battery power."""

    mode: Mode = "off"
    tokens: int = 2048
    battery: Mode = "off"


class Said(Protocol):
    """Settings, and what was turned since."""

    def __getitem__(self, key: Key[T], /) -> T: ...


def budget_of(said: Said) -> Budget:
    """How much is to be written ahead."""
    return Budget(said[keys.LOOK_AHEAD], said[keys.LOOK_AHEAD_TOKENS], said[keys.LOOK_AHEAD_BATTERY])


@dataclass(slots=True, eq=False)
class Ahead:
    """A round that begins after branch ``index`` is picked, or its first ``upto`` characters."""

    index: int
    upto: int | None
    asked: Request
    generation: Generation
    held: bool = False  # it rests where it is
    duplicates: Duplicates = field(default_factory=Duplicates)
    settled: bool = False  # it is written, and no branch of it is rolled again

    @property
    def tokens(self) -> int:
        """Written so far."""
        return sum(len(branch.buffer.ids) for branch in self.generation.branches)

    @property
    def share(self) -> float:
        """How much of it is written; 1.0 is all, and no branch is rolled again for being like another."""
        if self.generation.done and self.settled:
            return 1.0
        stop = self.asked.stop
        limit = stop.max_tokens if isinstance(stop, Stop) else None
        return min(0.99, self.tokens / (self.asked.n * (limit or _USUAL_TOKENS)))

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
        except EngineError as error:  # it is gone with its engine
            log.debug("what was written ahead cannot be dropped: %s", error)


class LookAhead(Instrument):
    """Writes ahead of the picks of a session, once it has a budget."""

    name: ClassVar[str] = "look_ahead"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._budget = Budget()
        self._learner = Learner(desk.story)
        self._rounds: tuple[Ahead, ...] = ()
        self._focus: tuple[int, int | None] = (0, None)
        self._seen: object = None  # what was asked for when the focus was told last
        self._followed: Generation | None = None  # the round whose picks are written ahead
        self._spent = 0  # tokens of this round that were thrown away
        self.written = self.taken = 0
        """Tokens that were written ahead since the session began, and those of them that a pick took over."""
        self._power = (float("-inf"), False)  # when it was looked, and whether a battery is used
        self._holding = threading.Lock()  # who lets them rest, or go on, does not meet who takes one over
        self._wake = threading.Condition()
        self._due = self._closing = False
        self._thread: threading.Thread | None = None

    # ---- what a face asks

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
        """The budget's, or less while the machine runs from its battery."""
        mode, battery = self._budget.mode, self._budget.battery
        if mode == "off" or MODES.index(battery) >= MODES.index(mode) or not self._on_battery():
            return mode
        return battery

    @property
    def why_not(self) -> str:
        """Why nothing is written ahead though the budget is there; empty if that is not so."""
        if self._budget.mode == "off":
            return ""
        return self._desk.capabilities.reason_for("look_ahead") or (BATTERY if self.mode == "off" else "")

    @property
    def spent(self) -> int:
        """Tokens of the budget that this round has taken."""
        return self._spent + sum(ahead.tokens for ahead in self._rounds)

    @property
    def working(self) -> bool:
        """Whether something is being written ahead."""
        return any(ahead.working for ahead in self._rounds)

    def share(self, index: int, upto: int | None = None) -> float | None:
        """How much is written of what follows a pick; 1.0 is all, None nothing.

        While a branch is written again, what followed its text before does not count.
        """
        current = self._desk.round
        if current is None or index >= len(current.branches) or current.branches[index].live:
            return None
        found = (
            a.share for a in self._rounds if (a.index, a.upto) == (index, upto) and not a.generation.error
        )
        return next(found, None)

    def focus(self, index: int, upto: int | None = None) -> None:
        """Note that the writer reads branch ``index``, and may pick so many characters of it.

        To be called often.
        """
        desk = self._desk
        self._focus = index, upto
        if self._budget.mode == "off":
            return
        seen = index, upto, desk.n, desk.sampling, desk.stop, desk.sweep, desk.variety
        if seen != self._seen:
            self._seen = seen
            self.look()

    # ---- what the session says

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
        """A key was pressed: what it does goes first."""
        engine = self._desk.engine
        if engine is not None and self.working:
            engine.stand_back()

    def text_changed(self) -> None:
        """What was written ahead may not follow; words that are not in the story yet begin nothing new."""
        if self._budget.mode != "off" and (self._rounds or not self._desk.typing.text_waits):
            self.look()

    def round_begins(self, current: Round) -> None:
        self.look()

    def model_changed(self) -> None:
        self.drop()

    def find_written(self, request: Request) -> Generation | None:
        """The round that was written ahead for exactly ``request``; None if there is none. The others go."""
        found = next((a for a in self._rounds if a.asked == request and a.generation.error is None), None)
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
        """Throw all of it away. To be called under the session's lock."""
        self._keep(lambda ahead: False)

    def close(self) -> None:
        """End for good."""
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
        generation = current.generation if current is not None else None
        able = desk.capabilities.has("look_ahead")
        if mode == "off" or desk.typing.text_waits or not able or self._closing:
            self.drop()
            return
        over = generation is not None and generation.done
        if over:
            desk.keep()  # a pick would do that, too
        self._keep(self._holds)
        if current is None or generation is None or desk.engine is None:
            return
        if generation is not self._followed:
            self._followed, self._spent = generation, 0
            generation.add_listener(lambda: self.look() if generation.done else None)
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

    def _likely(self, current: Round, mode: Mode) -> list[tuple[int, int | None]]:
        """Picks, the likeliest first."""
        texts = [branch.text for branch in current.branches]
        whole = [
            i for i, branch in enumerate(current.branches) if texts[i].strip() and _may_be_picked(branch)
        ]
        focused, upto = self._focus
        habits = self._learner.habits(current.parent)
        likely: list[tuple[int, int | None]] = []
        if focused in whole:
            if upto is not None and 0 < upto < len(texts[focused]):
                likely.append((focused, upto))
            likely.append((focused, None))
        if mode == "all":
            order = habits.order([len(text) for text in texts])
            likely += [(index, None) for index in order if index in whole and index != focused]
        if focused in whole and 2 * self.spent < self._budget.tokens:  # the rest is for where the focus goes
            part = habits.part(texts[focused])
            if part is not None and (focused, part) not in likely:
                likely.append((focused, part))
        return likely

    def _begin(self, index: int, upto: int | None) -> Ahead | None:
        engine, asked = self._desk.engine, self._desk.would_ask(index, upto)
        if asked is None or engine is None:
            return None
        generation = engine.submit(replace(asked, priority=Priority.AHEAD))
        ahead = Ahead(index, upto, asked, generation)
        self._rounds += (ahead,)
        generation.add_listener(lambda: self._heard(ahead))
        return ahead

    def _renew(self, ahead: Ahead) -> bool:
        """Roll branches again that are nearly the same as another; return whether there were any."""
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
        """Tokens of the budget were thrown away."""
        self._spent += tokens
        self.written += tokens

    def _heard(self, ahead: Ahead) -> None:
        """The engine's thread comes by with news."""
        if ahead.generation.done:
            self.look()
        elif self.spent >= self._budget.tokens:
            with self._holding:
                if ahead in self._rounds:  # nobody has taken it over
                    ahead.hold(True)

    # ---- inside

    def _holds(self, ahead: Ahead) -> bool:
        """Return whether the request is still the one that a pick would submit."""
        if ahead.generation.error is not None:
            return False
        return ahead.asked in (
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
    """Return whether this machine runs on battery power; False where that is unknown."""
    import psutil

    try:
        found = psutil.sensors_battery()
    except (AttributeError, OSError, RuntimeError, NotImplementedError):  # none on this system
        return False
    return found is not None and found.power_plugged is False
