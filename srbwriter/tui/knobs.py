"""The settings for writing ("knobs" in identifiers): reading, stepping and formatting; presets.

Pure functions on the engine's records. Sequences are written as JSON without the outer brackets, so that a
stop text can contain a newline.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from srbwriter import paths
from srbwriter.config.kinds import SWITCH
from srbwriter.engine.parameters import BY_NAME, PARAMETERS, Parameter
from srbwriter.engine.types import InvalidRequest, Sampling, Stop
from srbwriter.session.sampling import VARIETY, Usual, Variety, as_field

BRANCHES = replace(BY_NAME["n"], help="Branches that are written at once.", first=True)
KNOBS: tuple[Parameter, ...] = (
    BRANCHES,
    *(p for p in PARAMETERS if p.record in ("sampling", "stop")),
    *VARIETY,
)
FIRST: tuple[Parameter, ...] = tuple(p for p in KNOBS if p.first)
"""Those that writers change first."""
HEADINGS = {
    "request": "Branches",
    "length": "Length",
    "basic": "Temperature and seed",
    "truncation": "Filters",
    "repetition": "Repeated words",
    "DRY": "Repeated phrases (DRY)",
    "other samplers": "Other samplers",
    "constraint": "Constraints",
    "variety": "Variety",
}
"""Headings by the group of a parameter."""

_OFF = "–"


_RECORDS = {"sampling": "sampling", "stop": "stop", "request": "variety"}


def value_of(records: Usual | Setup, knob: Parameter) -> Any:
    """Return the value of a setting in one of the records that it belongs to."""
    return records.n if knob is BRANCHES else getattr(getattr(records, _RECORDS[knob.record]), knob.field)


@dataclass(frozen=True, slots=True)
class Setup:
    """How branches are written: the records that the panel edits together."""

    sampling: Sampling
    stop: Stop
    variety: Variety = field(default_factory=Variety)
    n: int = 1

    def get(self, knob: Parameter) -> Any:
        return value_of(self, knob)

    def put(self, knob: Parameter, value: Any) -> Setup:
        """Return this setup with one setting changed. Raises InvalidRequest."""
        knob.check(value)
        if knob is BRANCHES:
            return replace(self, n=value)
        name = _RECORDS[knob.record]
        return replace(self, **{name: replace(getattr(self, name), **{knob.field: value})})


def shown(knob: Parameter, value: Any) -> str:
    """Format a value for the panel; :func:`parse` reads it back."""
    if value is None:
        return _OFF
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (tuple, list)):
        return json.dumps(value, ensure_ascii=False)[1:-1] or _OFF
    return str(value)


def parse(knob: Parameter, text: str) -> Any:
    """Return the value of ``text``. Raises InvalidRequest."""
    text = text.strip()
    if text in ("", _OFF):
        return () if knob.kind in ("texts", "ids", "biases") and not knob.optional else None
    try:
        return _parsed(knob, text)
    except (ValueError, TypeError) as error:
        raise InvalidRequest(knob.name, f"{text!r} cannot be read") from error


def _parsed(knob: Parameter, text: str) -> Any:
    match knob.kind:
        case "int":
            return int(text)
        case "float":
            return float(text)
        case "bool":
            return SWITCH.parse(text)
        case "texts" | "ids":
            return tuple(json.loads(f"[{text}]"))
        case "biases":
            return tuple((int(token), float(bias)) for token, bias in json.loads(f"[{text}]"))
        case _:
            return text


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
    found: dict[str, Path] = {}
    for folder in (Path(__file__).parent / "presets", paths.config_dir() / "presets"):
        found.update({file.stem: file for file in sorted(folder.glob("*.toml"))})
    return found


def read_preset(file: Path, onto: Setup, usual: Usual) -> Setup:
    """Return the setup in a preset file; parameters it does not name get their usual value, lengths stay.

    Raises:
        InvalidRequest: the file is not TOML or names an unknown parameter; the message names the file.
    """
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest(str(file), str(error)) from error
    setup = replace(onto, sampling=replace(usual.sampling, seed=onto.sampling.seed))
    by_name = {knob.name: knob for knob in KNOBS}
    for name, value in values.items():
        if name == "about":
            continue
        if name not in by_name:
            raise InvalidRequest(str(file), f"there is no parameter {name}")
        setup = setup.put(by_name[name], as_field(value))
    return setup


def preset_words(file: Path, onto: Setup, usual: Usual) -> str:
    """Describe a preset and the values that it sets, or why it cannot be read."""
    try:
        setup = read_preset(file, onto, usual)
        about = tomllib.loads(file.read_text("utf-8")).get("about", "")
    except (InvalidRequest, OSError, ValueError) as error:
        return str(error)
    changed = [
        f"{knob.title} {shown(knob, setup.get(knob))}"
        for knob in KNOBS
        if knob.record == "sampling" and setup.get(knob) != value_of(usual, knob)
    ]
    return "\n".join([*([f"{about}\n"] if about else []), *(changed or ["every setting as usual"])])
