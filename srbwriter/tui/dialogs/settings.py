"""The settings dialog: how branches are written, then how the program works. Typing narrows the list.

A row is a parameter of the engine or a key of ``config.toml``; both are tables elsewhere, and the dialog is a
loop over them. A change applies at once where that is possible, else at the next start. Sequences are
written as JSON without the outer brackets, so that a stop text can contain a newline.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from textual.content import Content

from srbwriter import launch
from srbwriter.config import Key
from srbwriter.config.keys import SECTIONS
from srbwriter.config.kinds import SWITCH
from srbwriter.engine.parameters import BY_NAME, PARAMETERS, Parameter
from srbwriter.engine.types import InvalidRequest, number_words
from srbwriter.session.sampling import VARIETY, Usual
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.session import Session
    from srbwriter.tui.write.screen import WriteScreen

BRANCHES = replace(BY_NAME["n"], help="Branches that are written at once.", first=True)
KNOBS: tuple[Parameter, ...] = (
    BRANCHES,
    *(p for p in PARAMETERS if p.record in ("sampling", "stop")),
    *VARIETY,
)
OFF = "–"
_SEQUENCES = ("texts", "ids", "biases")
_EXPECTED = {
    "int": "a whole number", "float": "a number", "bool": "yes or no", "ids": "numbers with commas between",
    "texts": 'texts in quotes: "one", "two"', "biases": "pairs of numbers: [13, -2], [42, 1]",
}  # fmt: skip
_RECORDS = {"sampling": "sampling", "stop": "stop", "request": "variety"}


def value_of(owner: Session | Usual, knob: Parameter) -> Any:
    """Return the value of a setting in a session, or its usual value."""
    record = owner if knob is BRANCHES else getattr(owner, _RECORDS[knob.record])
    return getattr(record, knob.field)


def change(session: Session, knob: Parameter, value: Any) -> None:
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
        expected = filter(None, (_EXPECTED.get(knob.kind), _range(knob).strip(" .").lower()))
        raise InvalidRequest(knob.name, f"{text!r}: expected {', '.join(expected)}") from error


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


_FIRST = "What writers change first"


@dataclass(frozen=True, slots=True)
class Row:
    """A setting: its ``name`` in files and requests, and how it is read and changed.

    ``put`` takes what the writer typed, None for the usual value. Raises InvalidRequest or ValueError.
    """

    name: str
    title: str
    help: str
    group: str
    value: str
    usual: bool
    put: Callable[[str | None], object]
    step: Callable[[int], object] | None = None
    why_not: str = ""
    note: str = ""


def parameter_rows(screen: WriteScreen) -> Iterable[Row]:
    """Return the settings for new branches, those that writers change first before the others."""
    session = screen.session
    usual, can = session.usual, session.capabilities

    def row(knob: Parameter) -> Row:
        value, normal = value_of(session, knob), value_of(usual, knob)

        def put(text: str | None) -> None:
            change(session, knob, normal if text is None else parse(knob, text))

        def step(steps: int) -> None:
            change(session, knob, stepped(knob, value, steps))

        note = "  of this model" if value == normal and knob.field in usual.of_model else ""
        first = knob.first or value != normal or bool(note)
        return Row(
            knob.name, knob.title, f"{knob.help}{_range(knob)}",
            _FIRST if first else f"{knob.group[0].upper()}{knob.group[1:]}", shown(value),
            value == normal, put, step, can.reason_for(knob), note,
        )  # fmt: skip

    return sorted(map(row, KNOBS), key=lambda row: row.group != _FIRST)


def _range(knob: Parameter) -> str:
    if knob.choices:
        return f" One of {', '.join(knob.choices)}."
    if knob.minimum is None and knob.maximum is None:
        return ""
    low, high = number_words(knob.minimum), number_words(knob.maximum)
    return f" {low} to {high}." if high else f" {low} or more."


def program_rows(screen: WriteScreen) -> Iterable[Row]:
    """Yield the keys of ``config.toml``, but those that are settings for new branches."""
    app, writing = screen.app, {launch.key_name(knob) for knob in KNOBS}

    def put(key: Key[Any], text: str | None) -> None:
        try:
            value = key.default if text is None else key.read_text(text)
        except ValueError as error:
            raise ValueError(f"{text!r}: expected {key.expected}") from error
        app.change(key, value)

    for section, heading in SECTIONS.items():
        for key in app.preferences.table.section(section):
            source, value = app.preferences.source(key), app.preferences[key]
            listed = cast("tuple[object, ...]", value) if isinstance(value, tuple) else None
            words = shown(value) if listed is None else ",".join(map(str, listed))
            about = f"{key.help[:1].upper()}{key.help[1:]}. Expected: {key.expected}. {key.env}"
            if key.name not in writing:
                yield Row(
                    key.name, key.name, about, heading, words or OFF, source == "default",
                    partial(put, key), note="" if source == "default" else f"  ({source})",
                )  # fmt: skip


class SettingsDialog(Picker):
    """All settings. ``at`` is the name of the one to begin at."""

    BADGE = "SETTINGS"
    OPENED_BY = "settings"

    def __init__(self, screen: WriteScreen, at: str = "temperature") -> None:
        self._below = screen
        super().__init__("Settings · * not the usual value", self._all(), at=at)

    def _all(self) -> list[Choice]:
        rows = [*parameter_rows(self._below), *program_rows(self._below)]
        self._rows = {row.name: row for row in rows}
        return [Choice(row.name, row.title, row.name, row.why_not or f"{row.help} ({row.name})", row.group)
                for row in rows]  # fmt: skip

    def label(self, choice: Choice) -> Content:
        """Return a setting with its value as it is listed."""
        row = self._rows[choice.value]
        look = "$text-disabled" if row.why_not else "" if row.usual else "bold"
        return Content.styled(f"{'  ' if row.usual else '* '}{row.title:<29}{row.value}{row.note}", look)

    def on_unmount(self) -> None:
        self._below.guarded(self.app.knobs.keep)

    def _change(self, act: Callable[[Row], object]) -> None:
        """Change the setting under the cursor."""
        row = self._rows[self.chosen.value] if self.chosen is not None else None
        if row is not None and row.why_not:
            self.notify(row.why_not, severity="warning")
        elif row is not None:
            act(row)
            self.replace(self._all())

    @action("left", "less", -1)
    @action("right", "more", 1)
    def action_turn(self, steps: int) -> None:
        """Change the setting by one step."""
        self._change(lambda row: row.step(steps) if row.step is not None else self.action_take())

    @action("delete", "usual value")
    def action_default(self) -> None:
        """Reset the setting to its usual value."""
        self._change(lambda row: row.put(None))

    @action("enter", "type a value")
    def action_take(self) -> None:
        """Type the setting's value."""

        self._change(lambda row: self._below.attend(self._ask(row), self))

    async def _ask(self, row: Row) -> None:
        value = "" if row.value == OFF else row.value
        text = await self.app.ask(Ask(f"{row.title} — {row.help}", value, select=True))
        if text is not None:
            row.put(text)
            self.replace(self._all())
