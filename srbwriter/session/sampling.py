"""Sampling of branches: the session's settings, and a story's own settings (knobs).

Opening a story restores its last knobs. Imports no screen.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from srbwriter import launch
from srbwriter.config import Settings, keys
from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.parameters import BY_NAME, PARAMETERS, Parameter
from srbwriter.engine.types import InvalidRequest, Sampling, Stop, Together
from srbwriter.story.model import JsonObject, as_object

if TYPE_CHECKING:
    from .session import Session

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
        launch.sampling(settings), launch.stop(settings), Variety(settings[keys.SIBLINGS]),
        launch.branches(settings), launch.fields_of_model(settings),
    )  # fmt: skip


class RememberedKnobs:
    """The knobs of ``session`` that differ from its usual ones, stored in the story.

    Knobs that a flag or a variable sets are neither restored nor stored: the story keeps its own value.
    """

    def __init__(self, session: Session, settings: Settings) -> None:
        self._session = session
        said = {key.name for key in settings.table if settings.source(key) in ("flag", "environment")}
        self._rows = {
            record: [knob for knob in rows if launch.key_name(knob) not in said]
            for record, rows in _ROWS.items()
        }
        self._n_said = keys.N.name in said

    def keep(self) -> None:
        """Save the present knobs in the story. Raises StoryError."""
        session, kept = self._session, self._kept()
        if session.story.read_only is not None:
            return
        turned: JsonObject = {"n": session.n if session.n != session.usual.n else None}
        if self._n_said:
            turned["n"] = kept.get("n")
        for record, rows in self._rows.items():
            own = {knob.field for knob in rows}
            fields = {name: value for name, value in as_object(kept.get(record)).items() if name not in own}
            now, usual = getattr(session, record), getattr(session.usual, record)
            fields |= {f: getattr(now, f) for f in own if getattr(now, f) != getattr(usual, f)}
            turned[record] = fields
        if kept or any(turned.values()):
            session.story.put_value(TURNED, turned)

    def recall(self) -> None:
        """Restore the knobs; settings from flags and variables stay."""
        session, kept = self._session, self._kept()
        for record, rows in self._rows.items():
            for name, value in as_object(kept.get(record)).items():
                knob, value = next((knob for knob in rows if knob.field == name), None), as_field(value)
                if knob is not None and _fits(knob, value):
                    setattr(session, record, replace(getattr(session, record), **{name: value}))
        match kept.get("n"):
            case int() as n if n is not True and not self._n_said and _fits(BY_NAME["n"], n):
                session.n = n
            case _:
                pass

    def _kept(self) -> JsonObject:
        return as_object(self._session.story.value(TURNED))


def _fits(knob: Parameter, value: Any) -> bool:
    """Return whether a knob takes a value of the story."""
    try:
        knob.check(value)
    except InvalidRequest as error:
        log.warning("a setting of the story is not used: %s", error)
        return False
    return True
