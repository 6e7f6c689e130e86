"""A run of rounds that picks by an order and writes on, without the writer.

The interface calls :meth:`Autorun.step` some ten times a second, on the thread that handles its keys, so that
no key and no pick of the run come between each other. Everything that the writer does to the text or the
round ends the run. Imports no screen.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from srbwriter.engine.types import EngineError, FinishReason, NoModel
from srbwriter.story import Refused, StoryError
from srbwriter.story.model import counted

from .instrument import Instrument
from .ordering import BY_LENGTH, BY_PROBABILITY, ordered

if TYPE_CHECKING:
    from srbwriter.engine.generation import Branch
    from srbwriter.engine.types import Request

    from .rounds import Round

log = logging.getLogger(__name__)

FIRST, SHORTEST, AT_RANDOM = "first to end", "shortest", "at random"
CHOICES = {
    FIRST: "the branch that ends first; the others are cut short",
    "likeliest": "the branch with the likeliest words",
    "longest": "the branch with most characters",
    SHORTEST: "the branch with fewest characters",
    AT_RANDOM: "any branch",
}
"""What a run can pick: a name, and what it means."""
_ORDERS = {"likeliest": BY_PROBABILITY, "longest": BY_LENGTH, SHORTEST: BY_LENGTH}

MOST_ROUNDS = 999


@dataclass(slots=True)
class Run:
    """A run: its order, its rounds, and what it did so far."""

    order: str
    rounds: int
    goes_on: bool  # whether branches are written after the last pick
    done: int = 0
    actions: list[int] = field(default_factory=list[int])  # of the story: its picks
    active: bool = True
    problem: Exception | None = None
    """Why it ended early; None if the writer or nothing stopped it."""


class Autorun(Instrument):
    """Picks and writes on by itself, for a number of rounds."""

    name: ClassVar[str] = "autorun"
    order, rounds = FIRST, 8
    """The order and the number of rounds of the last run, for the next one."""
    run: Run | None = None
    """The last run."""
    _own = False  # whether the run itself changes the story now

    @property
    def active(self) -> bool:
        """Whether a run is in progress."""
        return self.run is not None and self.run.active

    @property
    def progress(self) -> str:
        run = self.run
        return f"round {min(run.done + 1, run.rounds)} of {run.rounds}" if run and run.active else ""

    def stop(self) -> None:
        """End the run; its picks, and the branches that are being written, stay."""
        if self.run is not None and not self._own:
            self.run.active = False

    round_ends = text_changed = close = stop

    def shape(self, request: Request) -> Request:
        """Return ``request``, with log-probabilities if the run compares them."""
        wanted = self.active and self.run is not None and self.run.order == "likeliest"
        return replace(request, logprobs=request.logprobs or 0) if wanted else request

    def begin(self, order: str, rounds: int, goes_on: bool = True) -> Run:
        """Begin to pick by ``order``, a name of :data:`CHOICES`, for a number of rounds.

        The first pick is from the branches that are shown, if they can be compared, or else from new ones.
        After the last pick branches are written if ``goes_on``. Raises ValueError, EngineError or StoryError.
        """
        desk = self._desk
        if order not in CHOICES or not 1 <= rounds <= MOST_ROUNDS:
            raise ValueError(f"Choose from 1 to {MOST_ROUNDS} rounds.")
        desk.may_write()
        if desk.engine is None:
            raise NoModel("The model is still loading. Try again when it is there.")
        if order == "likeliest":
            desk.capabilities.require("logprobs")
        with desk.state_lock:
            self.stop()
            self.order, self.rounds = order, rounds
            run = self.run = Run(order, rounds, goes_on)
            if not self._may_begin_with(desk.round, order):
                try:
                    self._act(desk.generate)
                except Exception:
                    run.active = False
                    raise
            return run

    def _may_begin_with(self, current: Round | None, order: str) -> bool:
        if current is None or current.taken or self._desk.stale or not current.branches:
            return False
        known = order != "likeliest" or all(b.logprobs for b in current.branches if may_be_picked(b))
        return known and any(branch.live or may_be_picked(branch) for branch in current.branches)

    def step(self, pick: Callable[[int, bool], object]) -> bool:
        """Pick if it is known which branch; return whether it was.

        ``pick`` gets the index of the branch, and whether branches are to be written after it, as
        :meth:`Session.pick` does. An error ends the run, and is its :attr:`~Run.problem`.
        """
        run = self.run
        if run is None or not run.active:
            return False
        before, done = self._desk.story.last_action, run.done
        try:
            index = self._choose(run)
            if index is None:
                return False
            self._act(lambda: pick(index, run.done + 1 < run.rounds or run.goes_on))
        except Exception as error:  # nobody asked for this pick: it is shown when they look
            log.warning("the run ends: %s", error, exc_info=not isinstance(error, EngineError | StoryError))
            run.active, run.problem = False, error
        finally:
            if self._desk.story.last_action != before:  # also if only the round after the pick failed
                self._count_pick(run)
        run.active = run.active and run.done < run.rounds
        return run.done > done

    def _act(self, act: Callable[[], object]) -> None:
        """Run ``act``, a verb of the session that the run itself calls."""
        self._own = True
        try:
            act()
        finally:
            self._own = False

    def _count_pick(self, run: Run) -> None:
        run.done += 1
        run.actions.append(self._desk.story.last_action)

    def _choose(self, run: Run) -> int | None:
        """Return the branch to pick; None while it is not known. Raises why there is none."""
        current = self._desk.round
        if current is None or current.generation is None:
            return None
        ended = current.generation.done and not any(branch.live for branch in current.branches)
        may = [branch for branch in current.branches if may_be_picked(branch)]  # after that: they may end now
        if run.order == FIRST and may:
            return min(may, key=lambda branch: branch.changed_at).index
        if not ended:
            return None
        if not may:
            raise _why_none(current)
        order = self._order(run, current)
        known = {branch.index for branch in may}
        return None if order is None else next(index for index in order if index in known)

    def _order(self, run: Run, current: Round) -> Sequence[int] | None:
        """Return the branches in the order of the run; None while it is not known."""
        if run.order == AT_RANDOM:
            return random.sample(range(len(current.branches)), len(current.branches))
        name = _ORDERS[run.order]
        if name == BY_PROBABILITY and not any(branch.logprobs for branch in current.branches):
            raise ValueError("the model does not say how likely its words are")
        order = ordered(current, name, _logprobs)
        return order[::-1] if order is not None and run.order == SHORTEST else order

    def undo(self) -> int:
        """Undo the picks of the last run that no other action followed, at once; return how many.

        Raises Refused if there are none.
        """
        desk, run = self._desk, self.run
        with desk.state_lock:
            self.stop()
            desk.keep()  # what was typed since is an action
            if run is None or not run.actions:
                raise Refused("Nothing that was written by itself is left to undo.")
            if desk.story.last_action not in run.actions:
                raise Refused("You changed the story after it was written by itself. Undo that first.")
            undone = desk.undo_all(run.actions)
            run.actions = [action for action in run.actions if action <= desk.story.last_action]
            return undone

    def outcome(self, run: Run) -> str:
        """Return in a sentence what a run that has ended did."""
        picks = counted(run.done, "round")
        if run.problem is not None:
            return f"Stopped after {picks}: {run.problem}"
        done = "Wrote" if run.done == run.rounds else "Stopped after"
        return f"{done} {picks}."


def may_be_picked(branch: Branch) -> bool:
    """Whether a branch has ended as it should, and has words.

    Words that were written only because a branch has a least length, where the model ends the text, are none.
    """
    if branch.live or branch.error is not None or not branch.text.strip():
        return False
    at_once = branch.finish_reason is FinishReason.EOG and len(branch.ids) <= branch.stop_rule.min_tokens
    return branch.finish_reason is not FinishReason.KILLED and not at_once


def _why_none(current: Round) -> Exception:
    """Return why no branch of a round can be picked."""
    failed = current.error or next((b.error for b in current.branches if b.error is not None), None)
    return failed or ValueError("no branch has words; the model takes the text for finished")


def _logprobs(branch: Branch) -> list[float | None]:
    return [one.logprob for one in branch.logprobs if one.logprob > -math.inf]
