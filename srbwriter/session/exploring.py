"""Likely continuations that no pane shows, and the exploration of all likely ones, for a session.

The probabilities after the common beginning are requested once a round; as its first tokens were drawn there,
the answer is in the cache. An exploration runs on a thread, level by level, and is shown as a round of ended
branches.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from srbwriter.config import Settings, keys
from srbwriter.engine.exploring import (
    Exploration,
    Exploring,
    Fork,
    Opening,
    Way,
    ask,
    completion,
    fork_of,
    needs_completion,
    question,
    rest_of_word,
)
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineError, FinishReason, NoModel, Take
from srbwriter.story import NodeId, ReadOnlyStory

from .instrument import Desk, Instrument, wait_a_moment
from .rounds import Round

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

log = logging.getLogger(__name__)

_SECONDS = 600.0  # seconds for one level; a long prompt may have to be evaluated first


def exploring_of(settings: Settings) -> Exploring:
    """Return which continuations are explored, by the settings."""
    return Exploring(
        settings[keys.EXPLORE_CUTOFF], settings[keys.EXPLORE_MULTIPLIER], settings[keys.EXPLORE_DEPTH],
        settings[keys.EXPLORE_BEAMS], settings[keys.EXPLORE_ENDS],
    )  # fmt: skip


@dataclass(slots=True)
class _Question:
    """The request for the next tokens after the prompt of ``about`` and some more tokens."""

    about: Generation
    after: tuple[int, ...]
    generation: Generation
    spelling: Future[object] | None = None  # done when the text of the reported tokens is known


class Word(NamedTuple):
    """The word that an opening begins: the tokens after the opening, and the whole text."""

    rest: tuple[int, ...]
    raw: bytes


class Explorer(Instrument):
    """Finds continuations that the panes of a session do not show."""

    name: ClassVar[str] = "exploring"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.wanted = Exploring()
        self._pending: _Question | None = None
        self._running: Exploration | None = None
        self.problem: Exception | None = None
        """Why the last exploration came to nothing."""

    def configure(self, settings: Settings) -> None:
        self.wanted = exploring_of(settings)

    def round_ends(self) -> None:
        self.stop()

    # ---- the fork

    def fork(self) -> Fork | None:
        """Return the openings of the shown branches among the likely ones; None if not known (yet)."""
        current, engine = self._desk.round, self._desk.engine
        generation = current.generation if current is not None else None
        if current is None or generation is None or engine is None:
            return None
        if not engine.capabilities.has("next_logprobs"):
            return None
        if self._pending is None or self._pending.about is not generation:
            if not current.taken_up or not any(branch.buffer.ids for branch in generation.branches):
                return None
            self._ask(engine, generation, ())
        pending = self._pending
        if pending is None or not pending.generation.done or not self._has_spelling(engine, pending):
            return None
        found = fork_of(generation, pending.after, pending.generation.next_logprobs, engine)
        if found.further is None:
            return found
        self._ask(engine, generation, found.further)
        return None

    def _ask(self, engine: Backend, generation: Generation, after: tuple[int, ...]) -> None:
        try:
            self._pending = _Question(generation, after, ask(engine, question(generation, after)))
        except EngineError as error:
            self._pending = None
            log.warning("what could follow is not known: %s", error)

    def _has_spelling(self, engine: Backend, pending: _Question) -> bool:
        """Whether the text of the tokens is known. Does not wait for a remote engine."""
        ids = [token for token, _ in pending.generation.next_logprobs]
        if pending.spelling is None and ids:
            pending.spelling = self.later(lambda: engine.pieces(ids))
            wait_a_moment(pending.spelling)
        return (
            pending.spelling is not None and pending.spelling.done() and pending.spelling.exception() is None
        )

    def complete(self, openings: Sequence[Opening]) -> Future[dict[int, Word]]:
        """Find the whole words that ``openings`` of the current fork begin, by their tokens.

        Writes the likeliest few tokens after each, all in one batch. Raises NoModel.
        """
        pending, engine = self._pending, self._desk.engine
        if pending is None or engine is None:
            raise NoModel("there are no branches yet whose words could be completed")
        begun = [opening for opening in openings if needs_completion(opening.raw)]
        return self.later(lambda: _words(engine, pending, begun))

    def open(self, opening: Opening, rest: tuple[int, ...] = ()) -> int:
        """Add a branch that begins with ``opening`` and the tokens ``rest``; return its index.

        Raises EngineError.
        """
        with self._desk.state_lock:
            after = self._pending.after if self._pending is not None else ()
            generation, current = self._desk.take_up(), self._desk.round
            if generation is None or current is None:
                raise NoModel("There are no branches yet. Write some first (ctrl+n).")
            index = len(generation.branches)  # set first: a remote engine adds the branch at once
            generation.add_branch(1, begin=(*after, opening.token, *rest))
            current.forced.add(index)
            return index

    # ---- likely continuations

    @property
    def progress(self) -> str:
        running = self._running
        if running is None:
            return ""
        share = running.tokens / self.wanted.depth
        return f"looking for likely continuations {share:.0%}, {len(running.ways)} so far"

    @property
    def working(self) -> bool:
        return self._running is not None

    def begin(self) -> None:
        """Explore the likely continuations of the current node; they become the round in view.

        Raises EngineError if the engine cannot, and ReadOnlyStory if branches cannot be saved.
        """
        desk = self._desk
        if desk.story.read_only is not None:
            raise ReadOnlyStory(desk.story.read_only)
        desk.capabilities.require("next_logprobs")
        with desk.state_lock:
            desk.leave_round(desk.story.end_typing)
            first, engine = desk.would_ask(None, None), desk.engine
            if first is None or engine is None:
                raise NoModel("the model is still loading, or there is none")
            wanted = replace(self.wanted, beams=min(self.wanted.beams, engine.max_branches))
            running = self._running = Exploration(first, wanted, engine.eog)
            self.problem = None
            given = running, engine, desk.story.current
        threading.Thread(target=self._run, args=given, name="srbwriter-explore", daemon=True).start()

    def stop(self) -> None:
        """Stop the exploration; nothing of it is shown."""
        self._running = None

    def _run(self, running: Exploration, engine: Backend, node: NodeId) -> None:
        desk = self._desk
        try:
            while self._running is running and (requests := running.requests()):
                generations = [ask(engine, request) for request in requests]
                for generation in generations:
                    generation.wait(_SECONDS)
                running.hear(generations, engine)
            with desk.state_lock:
                if self._running is running and desk.story.current == node:
                    self._show([way for way in running.ways if way.text.strip()])
        except Exception as error:  # on a thread: shown when the interface asks for the state
            log.warning("the exploration is given up: %s", error)
            self.problem = error
        finally:
            if self._running is running:
                self._running = None

    def _show(self, ways: Sequence[Way]) -> None:
        """Show continuations as a round of ended branches; they become nodes as those of any round."""
        if not ways:
            raise NoModel("No continuation is that likely. Lower explore_cutoff in the settings (F10).")
        current = Round(self._desk.story, self._desk.story.current, len(ways))
        current.probabilities = {index: math.exp(way.logprob) for index, way in enumerate(ways)}
        self._desk.begin_round(
            current,
            tuple(
                Take(way.text, way.ids, FinishReason.SENTENCE if way.ended else FinishReason.LENGTH)
                for way in ways
            ),
        )


def _words(engine: Backend, pending: _Question, openings: Sequence[Opening]) -> dict[int, Word]:
    """Return the words that ``openings`` begin, by their tokens; waits for the engine."""
    requests = [completion(pending.about, pending.after, opening.token) for opening in openings]
    generations = [engine.submit(request) for request in requests]
    found: dict[int, Word] = {}
    for opening, generation in zip(openings, generations, strict=True):
        generation.wait(_SECONDS)
        ids = tuple(generation.branches[0].buffer.ids)
        rest, raw = rest_of_word(ids, engine.pieces(ids))
        found[opening.token] = Word(rest, opening.raw + raw)
    return found


def probability_words(share: float) -> str:
    """Format a probability: ``9 %``, ``0.4 %``, ``under 0.01 %``."""
    percent = 100 * share
    if percent < 0.01:
        return "under 0.01 %"
    return f"{percent:.0f} %" if percent >= 1 else f"{percent:.1g} %"
