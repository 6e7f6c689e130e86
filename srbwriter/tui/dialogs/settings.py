"""The settings dialog: how branches are written, then how the program works. Typing narrows the list.

A row is a parameter of the engine or a key of ``config.toml``; both are tables elsewhere, and the dialog is a
loop over them. A change applies at once where that is possible, else at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter import launch
from srbwriter.config import Key
from srbwriter.config.keys import SECTIONS
from srbwriter.engine.parameters import Parameter
from srbwriter.engine.types import number_words
from srbwriter.tui import knobs
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import Ask, LineInput
from srbwriter.tui.dialogs.base import Dialog
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.widgets.lines import matches

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

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

    @property
    def label(self) -> Content:
        look = "$text-disabled" if self.why_not else "" if self.usual else "bold"
        return Content.styled(f"{'  ' if self.usual else '* '}{self.title:<29}{self.value}{self.note}", look)


def parameter_rows(screen: WriteScreen) -> Iterable[Row]:
    """Return the settings for new branches, those that writers change first before the others."""
    session = screen.session
    usual, can = session.usual, session.capabilities

    def row(knob: Parameter) -> Row:
        value, normal = knobs.get(session, knob), knobs.get(usual, knob)

        def put(text: str | None) -> None:
            knobs.put(session, knob, normal if text is None else knobs.parse(knob, text))

        def step(steps: int) -> None:
            knobs.put(session, knob, knobs.stepped(knob, value, steps))

        note = "  of this model" if value == normal and knob.field in usual.of_model else ""
        first = knob.first or value != normal or bool(note)
        return Row(
            knob.name, knob.title, f"{knob.help}{_range(knob)}",
            _FIRST if first else f"{knob.group[0].upper()}{knob.group[1:]}", knobs.shown(value),
            value == normal, put, step, can.reason_for(knob), note,
        )  # fmt: skip

    return sorted(map(row, knobs.KNOBS), key=lambda row: row.group != _FIRST)


def _range(knob: Parameter) -> str:
    if knob.choices:
        return f" One of {', '.join(knob.choices)}."
    if knob.minimum is None and knob.maximum is None:
        return ""
    low, high = number_words(knob.minimum), number_words(knob.maximum)
    return f" {low} to {high}." if high else f" {low} or more."


def program_rows(screen: WriteScreen) -> Iterable[Row]:
    """Yield the keys of ``config.toml``, but those that are settings for new branches."""
    app, writing = screen.app, {launch.key_name(knob) for knob in knobs.KNOBS}

    def put(key: Key[Any], text: str | None) -> None:
        try:
            note = app.preferences.put(key, key.default if text is None else key.read_text(text))
        except ValueError as error:
            raise ValueError(f"{text!r}: expected {key.expected}") from error
        app.apply_preferences()
        if note:
            app.notify(note)

    for section, heading in SECTIONS.items():
        for key in app.preferences.table.section(section):
            source, value = app.preferences.source(key), app.preferences[key]
            listed = cast("tuple[object, ...]", value) if isinstance(value, tuple) else None
            words = knobs.shown(value) if listed is None else ",".join(map(str, listed))
            about = f"{key.help[:1].upper()}{key.help[1:]}. Expected: {key.expected}. {key.env}"
            if key.name not in writing:
                yield Row(
                    key.name, key.name, about, heading, words or knobs.OFF, source == "default",
                    partial(put, key), note="" if source == "default" else f"  ({source})",
                )  # fmt: skip


class SettingsDialog(Dialog[None]):
    """All settings. ``at`` is the name of the one to begin at."""

    KEYS = "In the settings"
    BADGE = "SETTINGS"
    OPENED_BY = "settings"
    HEADING = "Settings"
    FOOT = "{keys} · type to narrow · * not the usual value"
    DEFAULT_CSS = """
    SettingsDialog { align: right middle; background: $background 40%; }
    SettingsDialog > .box {
        width: 84; max-width: 100%; height: 100%; max-height: 100%; padding: 1;
        border: none; border-left: solid $primary;
    }
    SettingsDialog LineInput { background: $panel; padding: 0 1; }
    SettingsDialog OptionList { height: 1fr; border: none; background: $surface; margin: 1 0; }
    SettingsDialog > .box > .about { height: 3; }
    """

    def __init__(self, screen: WriteScreen, at: str = "temperature") -> None:
        super().__init__()
        self._below, self._at = screen, at
        self._rows: list[Row | None] = []  # None is a heading

    def content(self) -> ComposeResult:
        yield LineInput(placeholder="narrow …", compact=True)
        yield OptionList(compact=True)
        yield Static(classes="about", markup=False)

    def on_mount(self) -> None:
        self._fill()
        self.query_one(LineInput).focus()

    def on_unmount(self) -> None:
        self._below.guarded(self.app.knobs.keep)

    @on(LineInput.Changed)
    def _fill(self) -> None:
        """List the settings that match the filter, with the cursor where it was."""
        words = self.query_one(LineInput).value.casefold().split()
        rows = [*parameter_rows(self._below), *program_rows(self._below)]
        found = [row for row in rows if matches(words, row.name, row.title, row.help)]
        self._rows, options = [], list[Option]()
        for heading, some in groupby(found, lambda row: row.group):
            options.append(Option(Content.styled(heading, "bold $text-muted"), disabled=True))
            self._rows.append(None)
            for row in some:
                options.append(Option(row.label))
                self._rows.append(row)
        names = [row.name if row is not None else "" for row in self._rows]
        listing = self.query_one(OptionList)
        listing.clear_options()
        listing.add_options(options)
        if names:
            listing.highlighted = names.index(self._at) if self._at in names else 1

    @property
    def row(self) -> Row | None:
        """The setting under the cursor."""
        at = self.query_one(OptionList).highlighted
        return self._rows[at] if at is not None and at < len(self._rows) else None

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        if (row := self.row) is not None:
            self._at = row.name
            self.query_one(".about", Static).update(row.why_not or f"{row.help} ({row.name})")

    def _change(self, act: Callable[[Row], object]) -> None:
        row = self.row
        if row is not None and row.why_not:
            self.notify(row.why_not, severity="warning")
        elif row is not None:
            act(row)
            self._fill()

    @action("up", "up", "cursor_up", foot=False)
    @action("down", "down", "cursor_down", foot=False)
    @action("pageup", "page up", "page_up", foot=False)
    @action("pagedown", "page down", "page_down", foot=False)
    def action_move(self, how: str) -> None:
        """Move in the list."""
        getattr(self.query_one(OptionList), f"action_{how}")()

    @action("left", "less", -1)
    @action("right", "more", 1)
    def action_turn(self, steps: int) -> None:
        """Change the setting by one step."""
        self._change(lambda row: row.step(steps) if row.step is not None else self.action_type())

    @action("delete", "usual value")
    def action_default(self) -> None:
        """Reset the setting to its usual value."""
        self._change(lambda row: row.put(None))

    @on(LineInput.Submitted)
    @on(OptionList.OptionSelected)
    def _chosen(self) -> None:
        self.action_type()

    @action("enter", "type a value")
    def action_type(self) -> None:
        """Type the setting's value."""

        def ask(row: Row) -> None:
            def answered(text: str) -> None:
                row.put(text)
                self._fill()

            value = "" if row.value == knobs.OFF else row.value
            self.ask(Ask(f"{row.title} — {row.help}", value, select=True), answered)

        self._change(ask)

    @action("ctrl+p", "presets")
    def action_presets(self) -> None:
        """Choose a preset."""
        session = self._below.session
        usual = replace(session.usual.sampling, seed=session.sampling.seed)
        choices = [
            Choice(file, name, preview=knobs.preset_words(file, usual))
            for name, file in knobs.presets().items()
        ]

        def picked(file: Path) -> None:
            _, session.sampling = knobs.read_preset(file, usual)
            self._fill()

        self.ask(Picker("Presets", choices), picked)
