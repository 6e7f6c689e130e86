"""A run of rounds that picks the likeliest branch and writes on, without the writer.

The interface calls :meth:`Autorun.step` some ten times a second, on the thread that handles its keys, so that
no key and no pick of the run come between each other. Everything that the writer does to the text or the
round ends the run. Imports no screen.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from srbwriter.engine.types import EngineError, FinishReason, NoModel
from srbwriter.story import StoryError
from srbwriter.story.model import counted

from .instrument import Instrument

if TYPE_CHECKING:
    from srbwriter.engine.generation import Branch
    from srbwriter.engine.types import Request

    from .rounds import Round

log = logging.getLogger(__name__)

MOST_ROUNDS = 999


@dataclass(slots=True)
class Run:
    """A run: its rounds, and what it did so far."""

    rounds: int
    goes_on: bool  # whether branches are written after the last pick
    done: int = 0
    active: bool = True
    problem: Exception | None = None
    """Why it ended early; None if the writer or nothing stopped it."""


class Autorun(Instrument):
    """Picks and writes on by itself, for a number of rounds."""

    name: ClassVar[str] = "autorun"
    rounds = 8
    """The number of rounds of the last run, for the next one."""
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
        """Return ``request``, with log-probabilities, which a run compares."""
        return replace(request, logprobs=request.logprobs or 0) if self.active else request

    def begin(self, rounds: int, goes_on: bool = True) -> Run:
        """Begin to pick the branch with the likeliest words, for a number of rounds.

        The first pick is from the branches that are shown, if they can be compared, or else from new ones.
        After the last pick branches are written if ``goes_on``. Raises ValueError, EngineError or StoryError.
        """
        desk = self._desk
        if not 1 <= rounds <= MOST_ROUNDS:
            raise ValueError(f"Choose from 1 to {MOST_ROUNDS} rounds.")
        desk.may_write()
        if desk.engine is None:
            raise NoModel("The model is still loading. Try again when it is there.")
        desk.capabilities.require("logprobs")
        with desk.state_lock:
            self.stop()
            self.rounds = rounds
            run = self.run = Run(rounds, goes_on)
            if not self._may_begin_with(desk.round):
                try:
                    self._act(desk.generate)
                except Exception:
                    run.active = False
                    raise
            return run

    def _may_begin_with(self, current: Round | None) -> bool:
        if current is None or current.taken or self._desk.stale:
            return False
        return any(branch.logprobs and (branch.live or may_be_picked(branch)) for branch in current.branches)

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
            index = self._choose()
            if index is None:
                return False
            self._act(lambda: pick(index, run.done + 1 < run.rounds or run.goes_on))
        except Exception as error:  # nobody asked for this pick: it is shown when they look
            log.warning("the run ends: %s", error, exc_info=not isinstance(error, EngineError | StoryError))
            run.active, run.problem = False, error
        finally:
            if self._desk.story.last_action != before:  # also if only the round after the pick failed
                run.done += 1
        run.active = run.active and run.done < run.rounds
        return run.done > done

    def _act(self, act: Callable[[], object]) -> None:
        """Run ``act``, a verb of the session that the run itself calls."""
        self._own = True
        try:
            act()
        finally:
            self._own = False

    def _choose(self) -> int | None:
        """Return the branch to pick; None while it is not known. Raises why there is none."""
        current = self._desk.round
        if current is None or current.generation is None:
            return None
        if not current.generation.done or any(branch.live for branch in current.branches):
            return None
        may = [branch for branch in current.branches if may_be_picked(branch)]
        if not may:
            raise _why_none(current)
        if not any(branch.logprobs for branch in may):
            raise ValueError("the model does not say how likely its words are")
        return max(may, key=_mean_logprob).index

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


def _mean_logprob(branch: Branch) -> float:
    known = [one.logprob for one in branch.logprobs if one.logprob > -math.inf]
    return fmean(known) if known else -math.inf
