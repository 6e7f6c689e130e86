"""What the writer's picks prefer: which temperature, other setting, preset, note or model wins.

Each place where they picked is a choice among the branches that they saw there; branches of earlier rounds at
that place count as well, since they were left. For each setting only branches that are equal in all else are
compared. Nothing here changes a setting.
"""

from __future__ import annotations

import json
import math
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from srbwriter.engine.types import Sampling
from srbwriter.story import Story
from srbwriter.story.comparisons import Candidate, Comparison
from srbwriter.story.model import as_list, as_object

from .instrument import Desk, Instrument
from .picks import AUTOMATIC
from .rounds import STEERED, VARIANT, WISH

if TYPE_CHECKING:
    from .rounds import Round
    from .strengths import Strength

NOTES = "notes"
"""The name of the story value with the author's notes of past rounds: [[Unix seconds, note], …]."""
MODEL, NOTE, PRESET = "model", "note", "preset"
"""Names of factors that are no field of :class:`Sampling`, beside ``VARIANT``.

A preset is all of its fields together.
"""
LEAST = 5
"""Comparisons that a value needs."""
_MOST_NOTES, _MOST_VALUES, _MOST_RANGES = 200, 8, 5


class Range(NamedTuple):
    """Numbers that count as one value."""

    low: float
    high: float


class Value(NamedTuple):
    """A value of a factor: its strength, and in how many comparisons it was offered and picked.

    For a preset, ``value`` has the fields of :class:`Sampling` that differ from their defaults.
    """

    value: Any
    strength: Strength
    offered: int
    picked: int


class Factor(NamedTuple):
    """A setting that differed between branches: a field of :class:`Sampling`, or one of the names above."""

    name: str
    comparisons: int
    values: tuple[Value, ...]


class Findings(NamedTuple):
    """What the picks of a story say. ``picks`` are the places with a choice."""

    picks: int
    factors: tuple[Factor, ...]


class Preferences(Instrument):
    """Finds out what the writer's picks prefer, and keeps which note was in force when."""

    name: ClassVar[str] = "preferences"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._note: tuple[float, str] | None = None  # of the last round, and since when it is in force

    def round_begins(self, current: Round) -> None:
        """Keep the author's note of a round if it is another one: nodes do not have it."""
        story, generation = self._desk.story, current.generation
        assert generation is not None
        # Its nodes are younger than the request, but may be older than this moment.
        asked = time.time() - (time.monotonic() - generation.submitted_at)
        note = story.settings(current.parent).author_note or ""
        if self._note is None:
            self._note = next(reversed(_kept_notes(story)), (asked, ""))
        before = self._note
        if before[1] != note:
            now = self._note = asked, note
            self.later(lambda: _keep_note(story, before, now))

    def find(self) -> Future[Findings]:
        """Read all picks of the story, on a thread of this instrument."""
        story = self._desk.story
        return self.later(lambda: find_preferences(story))


def _kept_notes(story: Story) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for entry in as_list(story.value(NOTES)):
        match entry:
            case [int() | float() as at, str(note)]:
                found.append((at, note))
            case _:
                continue
    return found


def _keep_note(story: Story, before: tuple[float, str], now: tuple[float, str]) -> None:
    """Keep that the note was changed; the first change also keeps what it was before."""
    kept = _kept_notes(story) or [before]
    story.put_value(NOTES, [*kept, now][-_MOST_NOTES:])


def find_preferences(story: Story) -> Findings:
    """Return what the picks of ``story`` say. Takes seconds for a long one."""
    by_itself = {node for node in as_list(story.value(AUTOMATIC)) if isinstance(node, int)}
    found = story.comparisons(by_itself)
    settings = _Settings(story)
    names = [MODEL, NOTE, VARIANT, *sorted(settings.fields_of(found)), PRESET]
    factors = (_factor(name, list(_choices(name, found, settings))) for name in names)
    return Findings(len(found), tuple(factor for factor in factors if factor is not None))


class _Settings:
    """The settings of the branches of a story."""

    def __init__(self, story: Story) -> None:
        notes = _kept_notes(story)
        self._times, self._notes = [at for at, _ in notes], [note for _, note in notes]
        self._defaults: dict[str, Any] = json.loads(json.dumps(asdict(Sampling())))
        self._recipes: dict[int, tuple[str, dict[str, Any]]] = {}
        self._story = story

    def note(self, branch: Candidate) -> str | None:
        """Return the author's note of a branch; None if it is not known."""
        at = bisect_right(self._times, branch.created)
        return self._notes[at - 1] if at else None

    def split(self, branch: Candidate, name: str) -> tuple[Hashable, Hashable]:
        """Return the value of a factor for a branch, and all its other settings, both as JSON."""
        model, sampling = self._recipe(branch.recipe)
        meta = as_object(json.loads(branch.meta)) if branch.meta else {}
        asked = {key: meta.get(key, "") for key in (WISH, VARIANT, STEERED)}
        own: dict[str, Any] = {MODEL: model, NOTE: self.note(branch), **asked}
        value: Any = sampling
        if name in own:
            value = own.pop(name)
        elif name != PRESET:
            value = sampling.get(name, self._defaults[name])
        if name != PRESET:
            own |= {key: setting for key, setting in sampling.items() if key != name}
        return json.dumps(value, sort_keys=True), json.dumps(own, sort_keys=True)

    def fields_of(self, found: Sequence[Comparison]) -> set[str]:
        """Return the fields of :class:`Sampling` in which branches may differ."""
        recipes = {branch.recipe for one in found for branch in (*one.picked, *one.others)}
        return {name for number in recipes for name in self._recipe(number)[1]} & set(self._defaults)

    def _recipe(self, number: int) -> tuple[str, dict[str, Any]]:
        if number not in self._recipes:
            self._recipes[number] = self._story.recipe(number)
        return self._recipes[number]


class _Choice(NamedTuple):
    """A choice: how many branches of each value there were, and how many of them were picked.

    Values are JSON, or a :class:`Range`.
    """

    offered: Counter[Hashable]
    picked: Counter[Hashable]

    def without(self, values: Collection[Hashable]) -> _Choice | None:
        """Return the choice among the other values; None if it is none. By Luce's rule that is the same."""
        left = [Counter({v: n for v, n in some.items() if v not in values}) for some in self]
        return _Choice(*left) if len(left[0]) > 1 and left[1] else None


def _choices(name: str, found: Sequence[Comparison], settings: _Settings) -> Iterator[_Choice]:
    """Yield the choices between values of a factor, each among branches that are equal in all else."""
    known: dict[tuple[int, Any, str], tuple[Hashable, Hashable]] = {}

    def split(branch: Candidate) -> tuple[Hashable, Hashable]:
        """Return the value of the factor, and all else."""
        key = branch.recipe, settings.note(branch), branch.meta
        if key not in known:
            known[key] = settings.split(branch, name)
        return known[key]

    for one in found:
        alike: dict[Hashable, _Choice] = defaultdict(lambda: _Choice(Counter(), Counter()))
        for branch in (*one.picked, *one.others):
            value, rest = split(branch)
            alike[rest].offered[value] += 1
        for branch in one.picked:
            value, rest = split(branch)
            alike[rest].picked[value] += 1
        for choice in alike.values():
            if choice.picked and (kept := choice.without(_not_compared(name, choice))) is not None:
                yield kept


def _not_compared(name: str, choice: _Choice) -> set[Hashable]:
    """Return values that a choice says nothing about: unknown notes, and presets that differ in one field."""
    if name == NOTE:
        return {"null"}
    if name != PRESET:
        return set()
    picked = json.loads(str(next(iter(choice.picked))))
    return {value for value in choice.offered if _distance(picked, json.loads(str(value))) == 1}


def _distance(one: dict[str, Any], other: dict[str, Any]) -> int:
    """Return in how many fields two presets differ."""
    return sum(one.get(name) != other.get(name) for name in {*one, *other})


def _factor(name: str, choices: list[_Choice]) -> Factor | None:
    """Return what the choices between values of a factor say; None if there are too few."""
    from .strengths import Choice, strengths  # numpy is not needed before

    choices = _with_enough(_in_ranges(choices))
    if not choices:
        return None
    values = sorted({value for choice in choices for value in choice.offered}, key=_rank)
    rows = [Choice(*(tuple(some[value] for value in values) for some in choice)) for choice in choices]
    found = strengths(rows)
    offered = Counter(value for choice in choices for value in choice.offered)
    picked = Counter(value for choice in choices for value in choice.picked)
    return Factor(name, len(choices), tuple(
        Value(_plain(value), strength, offered[value], picked[value])
        for value, strength in zip(values, found, strict=True)
    ))  # fmt: skip


def _plain(value: Hashable) -> Any:
    return value if isinstance(value, Range) else json.loads(str(value))


def _rank(value: Hashable) -> tuple[float, str]:
    plain = _plain(value)
    number = plain.low if isinstance(plain, Range) else plain if isinstance(plain, int | float) else math.inf
    return number, str(value)


def _in_ranges(choices: list[_Choice]) -> list[_Choice]:
    """Join numbers to a few ranges with about as many branches each, if there are many of them."""
    offered: Counter[Hashable] = Counter()
    for choice in choices:
        offered += choice.offered
    numbers = {value: _plain(value) for value in offered}
    if len(numbers) <= _MOST_RANGES or not all(type(n) in (int, float) for n in numbers.values()):
        return choices
    ranked = sorted(numbers, key=lambda value: numbers[value])
    parts: list[list[Hashable]] = [[] for _ in range(_MOST_RANGES)]
    total = offered.total()
    for value, before in zip(ranked, accumulate((offered[v] for v in ranked), initial=0), strict=False):
        parts[before * _MOST_RANGES // total].append(value)
    ranges = {value: Range(numbers[part[0]], numbers[part[-1]]) for part in parts for value in part}
    joined: list[_Choice] = []
    for choice in choices:
        both = _Choice(Counter(), Counter())
        for some, into in zip(choice, both, strict=True):
            for value, n in some.items():
                into[ranges[value]] += n
        if len(both.offered) > 1:
            joined.append(both)
    return joined


def _with_enough(choices: list[_Choice]) -> list[_Choice]:
    """Leave values out that too few choices compare, until all others have enough."""
    while choices:
        counts = Counter(value for choice in choices for value in choice.offered)
        few = {value for value, n in counts.items() if n < LEAST}
        few |= {value for value, _ in counts.most_common()[_MOST_VALUES:]}
        if not few:
            break
        choices = [kept for choice in choices if (kept := choice.without(few)) is not None]
    return choices
