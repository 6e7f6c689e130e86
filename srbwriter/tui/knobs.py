"""The knobs of the sampling panel: every parameter of the engine's own table, read, stepped and written.

Pure functions on the engine's records; knows no screen. Sequences are written as JSON without the outer
brackets, so that a stop text can hold a newline.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from srbwriter import paths
from srbwriter.config.kinds import SWITCH
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import InvalidRequest, Sampling, Stop
from srbwriter.session.sampling import VARIETY
from srbwriter.session.variety import Variety

KNOBS: tuple[Parameter, ...] = (
    *(p for p in PARAMETERS if p.record in ("sampling", "stop")),
    *VARIETY,
)
LADDERS: tuple[Parameter, ...] = tuple(
    p for p in KNOBS if p.record == "sampling" and p.kind in ("int", "float") and p.field != "seed"
)
"""Knobs that can be spread across the branches."""

_OFF = "–"

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_BETWEEN = re.compile(rf"({_NUMBER})(?:\s*(?:\.{{2,3}}|…|[-–—,;]|to)\s*|\s+)({_NUMBER})")
_BELOW_ZERO = re.compile(rf"({_NUMBER})\s+(-{_NUMBER})")  # a minus that stands at the number is its sign


_RECORDS = {"sampling": "sampling", "stop": "stop", "request": "variety"}


@dataclass(frozen=True, slots=True)
class Setup:
    """How branches are written: the records a panel edits together."""

    sampling: Sampling
    stop: Stop
    variety: Variety = field(default_factory=Variety)

    def get(self, knob: Parameter) -> Any:
        return getattr(getattr(self, _RECORDS[knob.record]), knob.field)

    def put(self, knob: Parameter, value: Any) -> Setup:
        """This setup with one knob turned. Raises InvalidRequest."""
        knob.check(value)
        name = _RECORDS[knob.record]
        return replace(self, **{name: replace(getattr(self, name), **{knob.field: value})})


def shown(knob: Parameter, value: Any) -> str:
    """A value as the panel shows it and :func:`parse` reads it."""
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
    """The value that ``text`` means. Raises InvalidRequest."""
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
            return SWITCH.from_text(text)
        case "texts" | "ids":
            return tuple(json.loads(f"[{text}]"))
        case "biases":
            return tuple((int(token), float(bias)) for token, bias in json.loads(f"[{text}]"))
        case _:
            return text


def stepped(knob: Parameter, value: Any, steps: int) -> Any:
    """The value some steps up or down, within the knob's range; choices and switches go round."""
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


# ---- the ladder


def parse_ladder(knob: Parameter, text: str) -> tuple[float, float] | None:
    """The first and the last value of a ladder, as in "0.4 … 1.2", "0.4 1.2" or "0.4-1.2"; None for no text.

    Raises InvalidRequest, which says what may be written.
    """
    if not (text := text.strip()):
        return None
    signed = knob.minimum is None or knob.minimum < 0
    found = (_BELOW_ZERO.fullmatch(text) if signed else None) or _BETWEEN.fullmatch(text)
    if found is None:
        raise InvalidRequest(knob.name, "give two values, such as 0.4 … 1.2")
    low, high = (parse(knob, part) for part in found.groups())
    knob.check(low)
    knob.check(high)
    return low, high


def ladder_words(knob: Parameter, low: float, high: float) -> str:
    """A ladder as the panel shows it and :func:`parse_ladder` reads it."""
    return f"{shown(knob, low)} … {shown(knob, high)}"


# ---- presets


def own_presets() -> Path:
    """Where the writer's own presets lie."""
    return paths.config_dir() / "presets"


def presets() -> dict[str, Path]:
    """Preset files by name; one of the writer's own replaces a shipped one of the same name."""
    found: dict[str, Path] = {}
    for folder in (Path(__file__).parent / "presets", own_presets()):
        found.update({file.stem: file for file in sorted(folder.glob("*.toml"))})
    return found


def read_preset(file: Path, onto: Setup) -> Setup:
    """The setup that a preset file describes; what it does not name is the default, length stays.

    Raises:
        InvalidRequest: the file is no TOML or names something that no knob takes; the message names it.
    """
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest(str(file), str(error)) from error
    setup = replace(onto, sampling=Sampling(seed=onto.sampling.seed))
    by_name = {knob.name: knob for knob in KNOBS}
    for name, value in values.items():
        if name == "about":
            continue
        if name not in by_name:
            raise InvalidRequest(str(file), f"there is no parameter {name}")
        setup = setup.put(by_name[name], _as_field(value))
    return setup


def differences(setup: Setup) -> list[tuple[Parameter, str]]:
    """The knobs that do not stand at their defaults, with what they are turned to."""
    return [(knob, shown(knob, value)) for knob in KNOBS if (value := setup.get(knob)) != knob.default]


def preset_words(file: Path, onto: Setup) -> str:
    """What a preset is for, and what it turns to what; or why it cannot be read."""
    try:
        setup = read_preset(file, onto)
        about = tomllib.loads(file.read_text("utf-8")).get("about", "")
    except (InvalidRequest, OSError, ValueError) as error:
        return str(error)
    turned = [f"{knob.title} {value}" for knob, value in differences(setup) if knob.record == "sampling"]
    return "\n".join([*([f"{about}\n"] if about else []), *(turned or ["every knob at its default"])])


def write_preset(name: str, setup: Setup) -> Path:
    """Keep a setup under a name of the writer's: what differs from the defaults, without the seed."""
    import tomli_w

    values = {
        knob.name: _plain(setup.get(knob))
        for knob in KNOBS
        if knob.record == "sampling" and knob.field != "seed" and setup.get(knob) != knob.default
    }
    file = own_presets() / f"{_file_name(name)}.toml"
    paths.write_atomic(file, tomli_w.dumps({k: v for k, v in values.items() if v is not None}).encode())
    return file


def _as_field(value: Any) -> Any:
    """A TOML value as the engine's records hold it."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """A value of the engine's records as TOML holds it."""
    return [_plain(item) for item in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


def _file_name(name: str) -> str:
    kept = "".join(character if character.isalnum() or character in "-_ " else "-" for character in name)
    if not kept.strip("- "):
        raise ValueError("a preset needs a name")
    return kept.strip()
