"""What branches are sampled with: the session's settings, a sweep over a round, and the knobs of a story.

The knobs as they were turned last for a story come back with it. What is a sweep here is a ladder in the
interface. Knows no screen.
"""

from __future__ import annotations

import logging
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from srbwriter import launch
from srbwriter.config import Settings, keys
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import InvalidRequest, Sampling, Stop
from srbwriter.story.model import JsonObject, as_object

from .variety import Variety

if TYPE_CHECKING:
    from srbwriter.session import Session

log = logging.getLogger(__name__)

TURNED = "knobs"
"""The story value that holds them: of each record the fields that differ from the settings; the sweep."""

_NOTHING: dict[str, Any] = {"sampling": {}, "stop": {}, "variety": {}, "ladder": None}
_Record = TypeVar("_Record", Sampling, Stop, Variety)
VARIETY = tuple(p for p in PARAMETERS if p.group == "variety")
"""Rows of the table that a story has knobs for, and that are about a whole round."""
_ROWS: dict[str, tuple[Parameter, ...]] = {
    **{record: tuple(p for p in PARAMETERS if p.record == record) for record in ("sampling", "stop")},
    "variety": VARIETY,
}


Sweep = tuple[str, float, float]
"""A field of :class:`Sampling`, its value for the first branch and for the last."""


def swept(sampling: Sampling, own: JsonObject, sweep: Sweep | None, n: int) -> tuple[Sampling, ...]:
    """One for each of ``n`` branches. What ``own`` says by the names of Sampling's fields goes first."""
    known = {f.name for f in fields(Sampling)}
    base = replace(sampling, **{k: as_field(v) for k, v in own.items() if k in known})
    seeds = [None] * n if base.seed is None else [base.seed + i for i in range(n)]
    if sweep is None:
        return tuple(replace(base, seed=seed) for seed in seeds)
    name, low, high = sweep
    whole = isinstance(getattr(base, name), int)
    values = [low + (high - low) * i / max(1, n - 1) for i in range(n)]
    return tuple(
        replace(base, **{name: round(value) if whole else value, "seed": seed})
        for value, seed in zip(values, seeds, strict=True)
    )


def as_field(value: Any) -> Any:
    """A JSON value as the engine's records have it: what is a list there is a tuple here."""
    return tuple(as_field(each) for each in cast("list[Any]", value)) if isinstance(value, list) else value


def variety_of(settings: Settings) -> Variety:
    """How branches are to differ, as the settings say."""
    return Variety(settings[keys.SIBLINGS], settings[keys.REPULSION], settings[keys.RENEW_DUPLICATES])


class RememberedKnobs:
    """The knobs of ``session``, as far as they are not what ``settings`` say anyway."""

    def __init__(self, session: Session, settings: Settings) -> None:
        self._session = session
        self._sampling, self._stop = launch.sampling(settings), launch.stop(settings)
        self._variety = variety_of(settings)
        self._said = {key.name for key in settings.table if settings.source(key) in ("flag", "environment")}

    def keep(self) -> None:
        """Write the knobs down as they are now. Raises StoryError."""
        session = self._session
        if session.story.read_only is not None:
            return
        turned = {
            "sampling": self._difference("sampling", session.sampling, self._sampling),
            "stop": self._difference("stop", session.stop, self._stop),
            "variety": self._difference("variety", session.variety, self._variety),
            "ladder": session.sweep,
        }
        if turned != _NOTHING or self._kept():
            session.story.put_value(TURNED, turned)

    def recall(self) -> None:
        """Turn the knobs back to where they were; what this start was told in words of its own stays."""
        session, kept = self._session, self._kept()
        session.sampling = self._turned(session.sampling, "sampling", kept)
        session.stop = self._turned(session.stop, "stop", kept)
        session.variety = self._turned(session.variety, "variety", kept)
        match kept.get("ladder"):
            case [str(field), int() | float() as low, int() | float() as high] if field != "seed":
                if self._may_turn("sampling", field, low) and self._may_turn("sampling", field, high):
                    session.sweep = (field, low, high)
            case _:
                pass

    def _kept(self) -> JsonObject:
        return as_object(self._session.story.value(TURNED))

    def _turned(self, record: _Record, name: str, kept: JsonObject) -> _Record:
        for field, value in as_object(kept.get(name)).items():
            if self._may_turn(name, field, as_field(value)):
                record = replace(record, **{field: as_field(value)})
        return record

    def _may_turn(self, record: str, field: str, value: Any) -> bool:
        """Whether there is such a knob, it takes ``value``, and this start was not told where it stands."""
        knob = next((p for p in _ROWS[record] if p.field == field), None)
        if knob is None or launch.key_name(knob) in self._said:
            return False
        try:
            knob.check(value)
        except InvalidRequest as error:
            log.warning("a knob of the story is not turned: %s", error)
            return False
        return True

    def _difference(self, name: str, record: _Record, usual: _Record) -> dict[str, Any]:
        """The fields that were turned; what only this start was told leaves what was kept before."""
        before, turned = as_object(self._kept().get(name)), dict[str, Any]()
        for knob in _ROWS[name]:
            value = getattr(record, knob.field)
            if value != getattr(usual, knob.field):
                turned[knob.field] = value
            elif launch.key_name(knob) in self._said and knob.field in before:
                turned[knob.field] = before[knob.field]
        return turned
