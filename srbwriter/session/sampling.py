"""Sampling of branches: the session's settings, and a story's own settings (knobs).

Opening a story restores its last knobs. Imports no screen.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar, cast

from srbwriter import launch
from srbwriter.config import Settings, keys
from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.parameters import BY_NAME, PARAMETERS, Parameter
from srbwriter.engine.types import InvalidRequest, Sampling, Stop, Together
from srbwriter.story import Story
from srbwriter.story.model import JsonObject, as_object

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Variety:
    """How new branches are sampled together; see :mod:`srbwriter.engine.siblings`."""

    siblings: Together = "independent"

    def request_fields(self, samplings: Sequence[Sampling], can: Capabilities) -> Mapping[str, Any]:
        """Return the fields of a request that the engine supports and ``samplings`` permit."""
        return launch.draw_together(self.siblings, samplings, can)


TURNED = "knobs"
"""The story value with the changed fields of each record and the number of branches."""

_NOTHING: dict[str, Any] = {"sampling": {}, "stop": {}, "variety": {}, "n": None}
_Record = TypeVar("_Record", Sampling, Stop, Variety)
VARIETY = tuple(p for p in PARAMETERS if p.group == "variety")
"""Settings of a whole round that a story can have."""
_ROWS: dict[str, tuple[Parameter, ...]] = {
    **{record: tuple(p for p in PARAMETERS if p.record == record) for record in ("sampling", "stop")},
    "variety": VARIETY,
}


def sample_branches(sampling: Sampling, own: JsonObject, n: int) -> tuple[Sampling, ...]:
    """Return the sampling of each of ``n`` branches: ``sampling`` with the fields of ``own``.

    An explicit seed counts up from branch to branch.
    """
    known = {f.name for f in fields(Sampling)}
    base = replace(sampling, **{k: as_field(v) for k, v in own.items() if k in known})
    if base.seed is None:
        return (base,) * n
    return tuple(replace(base, seed=base.seed + i) for i in range(n))


def as_field(value: Any) -> Any:
    """Convert a JSON value for the engine's records: lists become tuples."""
    return tuple(as_field(each) for each in cast("list[Any]", value)) if isinstance(value, list) else value


def follow_usual(record: _Record, before: _Record, after: _Record) -> _Record:
    """Return ``record`` with the values of ``after`` where it has those of ``before``."""
    same = [f.name for f in fields(record) if getattr(record, f.name) == getattr(before, f.name)]
    return replace(record, **{name: getattr(after, name) for name in same})


def variety_of(settings: Settings) -> Variety:
    """Return the variety from the settings."""
    return Variety(settings[keys.SIBLINGS])


@dataclass(frozen=True, slots=True)
class Usual:
    """How new branches are written unless the writer changes it."""

    sampling: Sampling
    stop: Stop
    variety: Variety
    n: int
    of_model: frozenset[str] = frozenset()  # fields that suit the model


def usual_of(settings: Settings) -> Usual:
    return Usual(
        launch.sampling(settings), launch.stop(settings), variety_of(settings), launch.branches(settings),
        launch.fields_of_model(settings),
    )  # fmt: skip


class Knobs(Protocol):
    """An object with a story's knobs: a session."""

    usual: Usual

    sampling: Sampling
    stop: Stop
    variety: Variety
    n: int

    @property
    def story(self) -> Story: ...


class RememberedKnobs:
    """The knobs of ``session`` that differ from its usual ones, stored in the story."""

    def __init__(self, session: Knobs, settings: Settings) -> None:
        self._session = session
        self._said = {key.name for key in settings.table if settings.source(key) in ("flag", "environment")}

    def keep(self) -> None:
        """Save the present knobs in the story. Raises StoryError."""
        session, usual = self._session, self._session.usual
        if session.story.read_only is not None:
            return
        turned = {
            "sampling": self._difference("sampling", session.sampling, usual.sampling),
            "stop": self._difference("stop", session.stop, usual.stop),
            "variety": self._difference("variety", session.variety, usual.variety),
            "n": session.n if session.n != usual.n else self._kept().get("n") if self._n_said else None,
        }
        if turned != _NOTHING or self._kept():
            session.story.put_value(TURNED, turned)

    def recall(self) -> None:
        """Restore the knobs; settings from flags and variables stay."""
        session, kept = self._session, self._kept()
        session.sampling = self._turned(session.sampling, "sampling", kept)
        session.stop = self._turned(session.stop, "stop", kept)
        session.variety = self._turned(session.variety, "variety", kept)
        match kept.get("n"):
            case int() as n if n is not True and not self._n_said and _fits(BY_NAME["n"], n):
                session.n = n
            case _:
                pass

    @property
    def _n_said(self) -> bool:
        return keys.N.name in self._said

    def _kept(self) -> JsonObject:
        return as_object(self._session.story.value(TURNED))

    def _turned(self, record: _Record, name: str, kept: JsonObject) -> _Record:
        for field, value in as_object(kept.get(name)).items():
            knob, value = next((p for p in _ROWS[name] if p.field == field), None), as_field(value)
            if knob is not None and launch.key_name(knob) not in self._said and _fits(knob, value):
                record = replace(record, **{field: value})
        return record

    def _difference(self, name: str, record: _Record, usual: _Record) -> dict[str, Any]:
        """Return the changed fields; fields that were set for this start keep their stored value."""
        before, turned = as_object(self._kept().get(name)), dict[str, Any]()
        for knob in _ROWS[name]:
            value = getattr(record, knob.field)
            if value != getattr(usual, knob.field):
                turned[knob.field] = value
            elif launch.key_name(knob) in self._said and knob.field in before:
                turned[knob.field] = before[knob.field]
        return turned


def _fits(knob: Parameter, value: Any) -> bool:
    """Return whether a knob takes a value of the story."""
    try:
        knob.check(value)
    except InvalidRequest as error:
        log.warning("a setting of the story is not used: %s", error)
        return False
    return True
