"""Every setting with its value and the source of that value, from the table of configuration keys."""

from __future__ import annotations

from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter import paths
from srbwriter.config import Key
from srbwriter.config.keys import SECTIONS
from srbwriter.tui.commands import action
from srbwriter.tui.dialog import Dialog
from srbwriter.tui.screens.ask import Ask, asks


class SettingsScreen(Dialog[None]):
    """The settings dialog. A change applies at once where possible, else at the next start."""

    KEYS = "In the settings"
    OPENED_BY = "settings"
    HEADING = "Settings"
    DEFAULT_CSS = """
    SettingsScreen > .box { width: 96; height: 90%; }
    SettingsScreen OptionList { height: 1fr; border: none; background: $surface; margin: 1 0; }
    SettingsScreen > .box > .about { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.foot = f"{{keys}} · your own file {paths.config_file()} is never written"
        self._rows: list[Key[Any] | None] = []

    def content(self) -> ComposeResult:
        yield OptionList(compact=True)
        yield Static(classes="about", markup=False)

    def on_mount(self) -> None:
        self._fill()
        self._list.highlighted = next(i for i, row in enumerate(self._rows) if row is not None)
        self._list.focus()

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    def _fill(self) -> None:
        at = self._list.highlighted
        self._rows, options = [], list[Option]()
        table = self.app.preferences.table
        for section, title in SECTIONS.items():
            keys = table.section(section)
            if not keys:
                continue
            self._rows.append(None)
            options.append(Option(Content.styled(title, "bold $text-muted"), disabled=True))
            for key in keys:
                self._rows.append(key)
                options.append(Option(self._label(key)))
        self._list.clear_options()
        self._list.add_options(options)
        self._list.highlighted = at

    def _label(self, key: Key[Any]) -> Content:
        source = self.app.preferences.source(key)
        same = source == "default"
        return Content.assemble(
            (f"{'  ' if same else '* '}{key.name:<28}", "$text-muted" if same else "bold"),
            (_words(self.app.preferences[key]), "" if same else "bold"),
            ("" if same else f"  ({source})", "$text-muted"),
        )

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        key = self._rows[event.option_index]
        if key is not None:
            self.query_one(".about", Static).update(f"{key.help}. Expected {key.expected}. {key.env}")

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self.action_change()

    @action("settings_change", "enter", "changes one")
    @asks
    def action_change(self) -> None:
        """Change the value of the setting."""
        at = self._list.highlighted
        row = None if at is None else self._rows[at]
        if row is None:
            return

        def answered(text: str | None) -> None:
            if text is not None:
                self._put(row, text)

        question = f"{row.name}: {row.help}; expected {row.expected}"
        self.open(Ask(question, _words(self.app.preferences[row]), select=True), answered)

    def _put(self, key: Key[Any], text: str) -> None:
        try:
            value = key.read_text(text)
        except ValueError:
            self.notify(f"{text!r}: expected {key.expected}", severity="error")
            return
        note = self.app.preferences.put(key, value)
        self.app.apply_preferences()
        self._fill()
        if note:
            self.notify(note)


def _words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)  # pyright: ignore
    return f"{value:g}" if isinstance(value, float) else str(value)
