"""The page that says what the writer's picks prefer."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.engine.parameters import PARAMETERS
from srbwriter.engine.types import InvalidRequest, Sampling, Stop
from srbwriter.session.preferences import LEAST, MODEL, NOTE, PRESET, Factor, Findings, Range, Value
from srbwriter.session.recorder import kept_sampling
from srbwriter.session.rounds import VARIANT
from srbwriter.story.model import counted
from srbwriter.tui import knobs
from srbwriter.tui.dialogs.base import QUIT, Dialog
from srbwriter.tui.write.status import shortened

_LOOKS = 0.05  # seconds between two looks at what is being counted
_SCALE, _LABEL = 19, 18  # cells
_TITLES = {MODEL: "Model", NOTE: "Author's note", VARIANT: "Variant", PRESET: "Preset"}
_ABOUT = (
    "How often a value is picked rather than another of its list, and the range that this is in with 95 % "
    "certainty. 50 % is no preference. Only branches that are equal in all else are compared. "
)


class PicksView(Dialog[None]):
    """Shows what the picks of the story prefer, once they are counted. It changes nothing."""

    HEADING = "What your picks prefer"
    FOOT = "{close_dialog} goes back"
    BINDINGS = [QUIT]

    DEFAULT_CSS = """
    PicksView > .box { width: 84; max-height: 90%; }
    PicksView VerticalScroll { height: auto; max-height: 1fr; }
    PicksView VerticalScroll Static { height: auto; }
    """

    def __init__(self, findings: Future[Findings]) -> None:
        super().__init__()
        self._findings = findings

    def content(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("Counting your picks …", id="picks-found")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self._look()

    def _look(self) -> None:
        if not self._findings.done():
            self.set_timer(_LOOKS, self._look)
        elif (error := self._findings.exception()) is not None:
            self.query_one("#picks-found", Static).update(Content(f"The picks cannot be read: {error}"))
        else:
            self.query_one("#picks-found", Static).update(findings_words(self._findings.result()))


def findings_words(findings: Findings) -> Content:
    """Return the findings as text: a list of values for each setting, or what is missing."""
    if not findings.factors:
        return Content(
            f"{counted(findings.picks, 'pick')} so far, too few to compare a setting. Each value needs "
            f"{LEAST} picks among branches that differ in it: a range of temperatures in the settings for "
            "writing, or a second round with another model, preset or author's note."
        )
    names = _preset_names() if any(factor.name == PRESET for factor in findings.factors) else {}
    parts = [Content.styled(_ABOUT, "$text-muted")]
    for factor in findings.factors:
        head = f"{_title(factor.name)} · {counted(factor.comparisons, 'pick')}"
        lines = [Content.styled(head, "bold $primary"), *(_line(factor, v, names) for v in factor.values)]
        parts.append(Content("\n").join(lines))
    return Content("\n\n").join(parts)


def _line(factor: Factor, value: Value, names: dict[str, str]) -> Content:
    """Return a value with its share, the interval in numbers and as a bar, and what it means."""
    share, low, high = (100 * part for part in value.strength)
    label = shortened(_label(factor.name, value.value, names), _LABEL).ljust(_LABEL)
    verdict, style = "", ""
    if low > 50:
        verdict, style = "preferred", "bold $text-success"
    elif high < 50:
        verdict, style = "avoided", "$text-warning"
    numbers = f"{share:3.0f} %  {f'{low:.0f} – {high:.0f}':>8} %  "
    return Content.assemble(
        (f"{label} {numbers}", style), (_scale(value), "$text-muted"), (f"  {verdict}", style)
    )


def _scale(value: Value) -> str:
    """Return a bar from never to always: the middle, the interval, and the share in it."""
    share, low, high = (round(part * (_SCALE - 1)) for part in value.strength)
    cells = ["─" if low <= cell <= high else "·" for cell in range(_SCALE)]
    cells[_SCALE // 2] = "┼" if low <= _SCALE // 2 <= high else "│"
    cells[share] = "●"
    return "".join(cells)


def _title(name: str) -> str:
    known = {parameter.field: parameter.title for parameter in PARAMETERS if parameter.record == "sampling"}
    return _TITLES.get(name) or known.get(name, name)


def _label(name: str, value: Any, names: dict[str, str]) -> str:
    """Return a value as the writer knows it."""
    match value:
        case Range(low, high):
            return f"{low:.3g} – {high:.3g}" if low != high else f"{low:.3g}"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"{value:.3g}"
        case dict():
            plain: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            words = ", ".join(f"{_title(field).lower()} {setting}" for field, setting in plain.items())
            return names.get(_key(plain)) or words or "all at their defaults"
        case _:
            return " ".join(str(value).split()) or ("no note" if name == NOTE else "none")


def _preset_names() -> dict[str, str]:
    """Return the names of the presets by what branches written with them have."""
    names: dict[str, str] = {}
    for name, file in knobs.presets().items():
        try:
            setup = knobs.read_preset(file, knobs.Setup(Sampling(), Stop()))
        except InvalidRequest:
            continue
        names[_key(kept_sampling(setup.sampling))] = name
    return names


def _key(sampling: dict[str, Any]) -> str:
    return json.dumps(sampling, sort_keys=True)
