"""The settings for writing ("knobs" in identifiers): reading and changing them.

They are the fields of the engine's records, of which a session has its own, and its usual ones. Sequences
are written as JSON without the outer brackets, so that a stop text can contain a newline.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from srbwriter.config.kinds import SWITCH
from srbwriter.engine.parameters import BY_NAME, PARAMETERS, Parameter
from srbwriter.engine.types import InvalidRequest
from srbwriter.session.sampling import VARIETY, Usual

if TYPE_CHECKING:
    from srbwriter.session import Session

BRANCHES = replace(BY_NAME["n"], help="Branches that are written at once.", first=True)
KNOBS: tuple[Parameter, ...] = (
    BRANCHES,
    *(p for p in PARAMETERS if p.record in ("sampling", "stop")),
    *VARIETY,
)
OFF = "–"
_SEQUENCES = ("texts", "ids", "biases")
_RECORDS = {"sampling": "sampling", "stop": "stop", "request": "variety"}


def get(owner: Session | Usual, knob: Parameter) -> Any:
    """Return the value of a setting in a session, or its usual value."""
    record = owner if knob is BRANCHES else getattr(owner, _RECORDS[knob.record])
    return getattr(record, knob.field)


def put(session: Session, knob: Parameter, value: Any) -> None:
    """Change a setting of the branches that are written from now on. Raises InvalidRequest."""
    knob.check(value)
    if knob is BRANCHES:
        session.n = value
    else:
        name = _RECORDS[knob.record]
        setattr(session, name, replace(getattr(session, name), **{knob.field: value}))


def shown(value: Any) -> str:
    """Return a value as it is typed; :func:`parse` reads it back."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)[1:-1] or OFF
    return OFF if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def parse(knob: Parameter, text: str) -> Any:
    """Return the value of ``text``. Raises InvalidRequest."""
    text = text.strip()
    if text in ("", OFF):
        return () if knob.kind in _SEQUENCES and not knob.optional else None
    try:
        if knob.kind == "bool":
            return SWITCH.parse(text)
        value = json.loads(f"[{text}]") if knob.kind in _SEQUENCES else text
        return msgspec.convert(value, knob.hint, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        raise InvalidRequest(knob.name, f"{text!r} cannot be read: {error}") from error


def stepped(knob: Parameter, value: Any, steps: int) -> Any:
    """Return the value ``steps`` up or down within the knob's range; choices and switches wrap around."""
    if knob.kind == "bool":
        return not value
    if knob.choices:
        choices = [None, *knob.choices] if knob.optional else list(knob.choices)
        return choices[(choices.index(value) + steps) % len(choices)]
    if knob.kind not in ("int", "float"):
        return value
    base = value if value is not None else (knob.default or 0)
    turned = knob.clamp(round(base + steps * (knob.step or 1), 6))
    return int(turned) if knob.kind == "int" else float(turned)
