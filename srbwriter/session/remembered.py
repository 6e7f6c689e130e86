"""The knobs as they were turned last for a story; they come back with it. Knows no screen."""

from __future__ import annotations

import logging
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from srbwriter import launch
from srbwriter.config import Settings
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import InvalidRequest, Sampling, Stop
from srbwriter.story.draft import JsonObject

if TYPE_CHECKING:
    from srbwriter.session import Session

log = logging.getLogger(__name__)

TURNED = "knobs"
"""The story value that holds them: of each record the fields that differ from the settings; the ladder."""

_Record = TypeVar("_Record", Sampling, Stop)


class RememberedKnobs:
    """The knobs of ``session``, as far as they are not what ``settings`` say anyway."""

    def __init__(self, session: Session, settings: Settings) -> None:
        self._session = session
        self._sampling, self._stop = launch.sampling(settings), launch.stop(settings)
        self._said = {key.name for key in settings.table if settings.source(key) in ("flag", "environment")}

    def keep(self) -> None:
        """Write the knobs down as they are now. Raises StoryError."""
        session = self._session
        if session.story.read_only is not None:
            return
        turned = {
            "sampling": _difference(session.sampling, self._sampling),
            "stop": _difference(session.stop, self._stop),
            "ladder": session.ladder,
        }
        session.story.put_value(TURNED, turned)

    def recall(self) -> None:
        """Turn the knobs back to where they were; what this start was told in words of its own stays."""
        kept = self._session.story.value(TURNED)
        if not isinstance(kept, dict):
            return
        turned = cast(JsonObject, kept)
        self._session.sampling = self._turned(self._session.sampling, "sampling", turned)
        self._session.stop = self._turned(self._session.stop, "stop", turned)
        match turned.get("ladder"):
            case [str(name), float() | int() as low, float() | int() as high] if _knob("sampling", name):
                self._session.ladder = (name, float(low), float(high))
            case _:
                pass

    def _turned(self, record: _Record, name: str, turned: JsonObject) -> _Record:
        kept = turned.get(name)
        for field, value in cast(JsonObject, kept).items() if isinstance(kept, dict) else ():
            knob = _knob(name, field)
            if knob is None or launch.key_name(knob) in self._said:
                continue
            try:
                knob.check(_as_field(value))
                record = replace(record, **{field: _as_field(value)})
            except InvalidRequest as error:
                log.warning("a knob of the story is not turned: %s", error)
        return record


def _difference(record: Sampling | Stop, usual: Sampling | Stop) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def _knob(record: str, field: str) -> Parameter | None:
    return next((p for p in PARAMETERS if p.record == record and p.field == field), None)


def _as_field(value: Any) -> Any:
    """A JSON value as the records have it: what is a list there is a tuple here."""
    return tuple(_as_field(each) for each in cast("list[Any]", value)) if isinstance(value, list) else value
