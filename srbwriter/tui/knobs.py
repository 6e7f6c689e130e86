"""The settings for writing ("knobs" in identifiers): reading and changing them; presets.

They are the fields of the engine's records, of which a session has its own, and its usual ones. Sequences
are written as JSON without the outer brackets, so that a stop text can contain a newline.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from srbwriter import paths
from srbwriter.config.kinds import SWITCH
from srbwriter.engine.parameters import BY_NAME, PARAMETERS, Parameter, validate
from srbwriter.engine.types import InvalidRequest, Sampling
from srbwriter.session.sampling import VARIETY, Usual, as_field

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


# ---- presets


def presets() -> dict[str, Path]:
    """Return preset files by name; the writer's own replace bundled ones of the same name."""
    folders = (Path(__file__).parent / "presets", paths.config_dir() / "presets")
    return {file.stem: file for folder in folders for file in sorted(folder.glob("*.toml"))}


def read_preset(file: Path, usual: Sampling) -> tuple[str, Sampling]:
    """Return what a preset file is about, and its sampling: ``usual`` but for the values that it names.

    Raises:
        InvalidRequest: the file is not TOML or names an unknown parameter; the message names the file.
    """
    try:
        values = tomllib.loads(file.read_text("utf-8"))
        about = str(values.pop("about", ""))
        fields = {BY_NAME[name].field: as_field(value) for name, value in values.items()}
        sampling = replace(usual, **fields)
    except KeyError as error:
        raise InvalidRequest(str(file), f"there is no parameter {error.args[0]}") from error
    except (OSError, ValueError, TypeError) as error:
        raise InvalidRequest(str(file), str(error)) from error
    validate(sampling)
    return about, sampling


def preset_words(file: Path, usual: Sampling) -> str:
    """Describe a preset and the values that it sets, or why it cannot be read."""
    try:
        about, sampling = read_preset(file, usual)
    except InvalidRequest as error:
        return str(error)
    changed = [
        f"{knob.title} {shown(getattr(sampling, knob.field))}"
        for knob in KNOBS
        if knob.record == "sampling" and getattr(sampling, knob.field) != getattr(usual, knob.field)
    ]
    return "\n".join([*([f"{about}\n"] if about else []), *(changed or ["every setting as usual"])])
