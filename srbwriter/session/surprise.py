"""Surprise of a story's sentences: how unexpected each is to the model, in bits for each of its tokens.

The story is scored once. A sentence keeps its score until its own words or those shortly before it change;
log-probabilities that another instrument knows are used. Imports no screen.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from srbwriter.engine.types import NoModel, Priority
from srbwriter.prose import unit_ends
from srbwriter.story import Author

from .instrument import Desk, Instrument
from .scoring import Written, scoring_request, story_tokens

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Generation
    from srbwriter.story import NodeId
    from srbwriter.story.context import Segment

    from .prompting import Prompter

LEAST_TOKENS = 8
"""Sentences of fewer tokens are left out: one odd word would be most of their score."""

CONTEXT_CHARS = 1000
"""A sentence is scored again if one of so many characters before it has changed."""

_GAP = 64  # scored tokens between two sentences that are evaluated again rather than asked about apart
_SPARE = 32  # tokens of the window that stay free


class ScoredSentence(NamedTuple):
    """A sentence of the story, from character ``start`` to ``end``.

    ``bits`` is the mean surprisal of its tokens; ``authors`` are those who wrote it.
    """

    start: int
    end: int
    bits: float
    authors: frozenset[Author] = frozenset()


def flattest(passages: Sequence[ScoredSentence], most: int) -> list[ScoredSentence]:
    """Return up to ``most`` passages of the least surprise, the flattest first; at most half of all."""
    return sorted(passages, key=lambda one: (one.bits, one.start))[: min(most, (len(passages) + 1) // 2)]


def most_unexpected(passages: Sequence[ScoredSentence], most: int) -> list[ScoredSentence]:
    """Return up to ``most`` passages of the most surprise, the highest first; at most half of all."""
    ordered = sorted(passages, key=lambda one: (one.bits, one.start), reverse=True)
    return ordered[: min(most, len(passages) // 2)]


class _Sentence(NamedTuple):
    start: int
    end: int
    tokens: tuple[int, ...]  # numbers of its tokens in the prompt
    key: str  # its text and that before it


def _sentences(text: str, tokens: Sequence[Written]) -> list[_Sentence]:
    """Return the sentences of ``text`` that are long enough to be scored. A token is where it ends."""
    found: list[_Sentence] = []
    ends = [token.end for token in tokens]
    start = 0
    for end in unit_ends(text, "sentence"):
        first, last = bisect_right(ends, start), bisect_right(ends, end)
        own = tuple(token.at for token in tokens[first:last] if token.at)  # nothing is before the first
        begin = start + len(text[start:end]) - len(text[start:end].lstrip())
        if len(own) >= LEAST_TOKENS:
            found.append(_Sentence(begin, end, own, text[max(0, begin - CONTEXT_CHARS) : end]))
        start = end
    return found


class _Window(NamedTuple):
    """Tokens to be evaluated: the head of the prompt, and those from ``begin`` to ``end``.

    They are scored from number ``first`` on. With ``begin`` at the end of the head they are the beginning of
    the prompt.
    """

    begin: int
    first: int
    end: int


def plan_windows(missing: Sequence[tuple[int, int]], head: int, room: int) -> Iterator[_Window]:
    """Yield windows of at most ``room`` tokens in which the missing tokens are scored.

    Where the beginning of the story has no room, a quarter of a window is the text before what is scored.

    Args:
        missing: runs of tokens without a score, in order: the number of the first one, and the end.
        head: the number of tokens before the story.
        room: tokens of a window at most.
    """
    rest = deque(missing)
    while rest:
        first, end = rest.popleft()
        limit = max(room, first + (room - head) * 3 // 4)
        while rest and rest[0][1] <= limit and rest[0][0] - end <= _GAP:
            end = rest.popleft()[1]
        end = min(end, limit)
        yield _Window(max(head, end - (room - head)), first, end)


@dataclass
class Reading:
    """The scoring of a story, which may still be running. ``passages`` are there when it is ``done``."""

    text: str
    passages: tuple[ScoredSentence, ...] = ()
    error: Exception | None = None
    stopped: bool = False
    done: bool = False
    share: float = 0.0
    """The part of the missing tokens that is scored by now, from 0 to 1."""
    lookup: Generation | None = None

    def stop(self) -> None:
        """End it; sentences that are scored stay so."""
        self.stopped = True
        if (lookup := self.lookup) is not None:
            lookup.cancel()


class Surprise(Instrument):
    """Scores the sentences of the story."""

    name: ClassVar[str] = "surprise"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._reading: Reading | None = None
        self._kept: dict[str, float] = {}  # scores of sentences
        self._lock = threading.Lock()

    def model_changed(self) -> None:
        self.stop()
        with self._lock:
            self._kept = {}

    def close(self) -> None:
        self.stop()

    @property
    def progress(self) -> str:
        reading = self._reading
        if reading is None or reading.done or reading.stopped:
            return ""
        return f"scoring the story: {100 * reading.share:.0f} %"

    def stop(self) -> None:
        if self._reading is not None:
            self._reading.stop()

    def read(self) -> Reading:
        """Score the sentences that have no score yet; return at once. A scoring that still runs is stopped.

        Raises NotSupported where the engine reports no log-probabilities of a prompt, NoModel, StoryError.
        """
        desk = self._desk
        desk.capabilities.require("prompt_logprobs")
        with desk.state_lock:
            prompter = desk.prompter
            desk.keep()
            here = desk.story.current
            self.stop()
            reading = self._reading = Reading(desk.text())
        self.later(lambda: self._read(reading, prompter, here))
        return reading

    def _read(self, reading: Reading, prompter: Prompter, here: NodeId) -> None:
        try:
            engine = self._desk.engine
            if engine is None:
                raise NoModel("the model is still loading")
            segments = self._segments(prompter, here)
            ids = tuple(token for segment in segments for token in segment.tokens)
            sentences = _sentences(reading.text, story_tokens(engine, segments, 0))
            self._score(reading, engine, ids, _head(segments), sentences)
            reading.passages = self._passages(here, sentences)
        except Exception as error:
            reading.error = error
        finally:
            reading.lookup = None
            reading.done = True

    def _segments(self, prompter: Prompter, here: NodeId) -> Sequence[Segment]:
        """Return the prompt of a round, if the whole story is in it; else its head and the whole story."""
        story = self._desk.story
        assembly = prompter.assemble(here, story.settings(here), self._desk.stop)
        if not any(dropped.source == "story" for dropped in assembly.dropped):
            return assembly.segments
        head = takewhile(lambda segment: segment.source != "story", assembly.segments)
        return (*head, *prompter.story_segments(here))

    def _score(
        self, reading: Reading, engine: Backend, ids: tuple[int, ...], head: int,
        sentences: Sequence[_Sentence],
    ) -> None:  # fmt: skip
        """Score the sentences that have no score, and keep the scores of these sentences alone."""
        known = self._desk.scored.of(ids)
        self._keep(sentences, known)
        with self._lock:
            kept = self._kept = {one.key: self._kept[one.key] for one in sentences if one.key in self._kept}
        missing = [one for one in sentences if one.key not in kept]
        runs = [(next(at for at in one.tokens if at not in known), one.tokens[-1] + 1) for one in missing]
        windows = list(plan_windows(runs, head, engine.n_ctx - _SPARE))
        total, done = sum(window.end - window.first for window in windows) or 1, 0
        for window in windows:
            whole = window.begin == head
            asked = ids[: window.end] if whole else (*ids[:head], *ids[window.begin : window.end])
            shift = 0 if whole else window.begin - head
            first = max(1, window.first - shift)
            if reading.stopped:
                break
            lookup = reading.lookup = engine.submit(scoring_request(asked, first, Priority.NORMAL))
            if reading.stopped:  # just now, before there was anything to cancel
                lookup.cancel()
            for _ in lookup.events():
                reading.share = (done + len(lookup.prompt_logprobs)) / total
            lookup.wait()
            done += window.end - window.first
            if self._desk.engine is not engine:
                break
            logprobs = [one.logprob for one in lookup.prompt_logprobs]
            if whole:
                self._desk.scored.put(asked, first, logprobs)
            known.update(enumerate(logprobs, first + shift))
            self._keep(missing, known)

    def _keep(self, sentences: Sequence[_Sentence], known: Mapping[int, float]) -> None:
        """Keep the scores of those sentences of which all log-probabilities are known."""
        with self._lock:
            for one in sentences:
                mean = fmean(known.get(at, -math.inf) for at in one.tokens)
                if mean > -math.inf:
                    self._kept[one.key] = -mean / math.log(2)

    def _passages(self, here: NodeId, sentences: Sequence[_Sentence]) -> tuple[ScoredSentence, ...]:
        """Return the sentences that have a score, with their authors."""
        story = self._desk.story
        spans = [span for node in story.nodes(story.path(here)) for span in node.spans]
        ends = list(accumulate(len(span.text) for span in spans))
        found: list[ScoredSentence] = []
        for one in sentences:
            if one.key in self._kept:
                own = spans[bisect_right(ends, one.start) : bisect_left(ends, one.end) + 1]
                authors = frozenset[Author](span.author for span in own)
                found.append(ScoredSentence(one.start, one.end, self._kept[one.key], authors))
        return tuple(found)


def _head(segments: Sequence[Segment]) -> int:
    """Return the number of tokens before the story."""
    head = takewhile(lambda segment: segment.source != "story", segments)
    return sum(len(segment.tokens) for segment in head)
