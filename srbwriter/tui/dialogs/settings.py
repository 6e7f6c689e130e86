"""Every setting with its value and the source of that value, from the table of configuration keys.

The ten that writers change first stand at the top under plain names; the others under "more settings".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter import launch, paths
from srbwriter.config import Key
from srbwriter.config.keys import CTX_SIZE, MODEL, SECTIONS, N
from srbwriter.tui import knobs
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.base import Dialog
from srbwriter.tui.options import THEME

FIRST = {
    **{N.name if knob is knobs.BRANCHES else launch.key_name(knob): knob.title for knob in knobs.FIRST},
    MODEL.name: "Model",
    CTX_SIZE.name: "Context",
    THEME.name: "Theme",
}
"""The settings that writers change first, by their names in ``config.toml``: what they are called here."""
_FIRST = "What writers change first"
_MORE = "more"  # the row that shows or hides all other settings


class SettingsScreen(Dialog[None]):
    """The settings dialog. A change applies at once where possible, else at the next start."""

    KEYS = "In the settings"
    OPENED_BY = "settings"
    HEADING = "All settings"
    DEFAULT_CSS = """
    SettingsScreen > .box { width: 96; height: 90%; }
    SettingsScreen OptionList { height: 1fr; border: none; background: $surface; margin: 1 0; }
    SettingsScreen > .box > .about { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.foot = f"{{keys}} · your own file {paths.config_file()} is never written"
        self._rows: list[Key[Any] | str | None] = []
        self._more = False

    def content(self) -> ComposeResult:
        yield OptionList(compact=True)
        yield Static(classes="about", markup=False)

    def on_mount(self) -> None:
        self._fill()
        self._list.highlighted = 1  # below the first heading
        self._list.focus()

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    def _fill(self) -> None:
        at = self._list.highlighted
        self._rows, options = [], list[Option]()
        table = self.app.preferences.table

        def add(heading: str, keys: Sequence[Key[Any]]) -> None:
            if keys:
                options.append(Option(Content.styled(heading, "bold $text-muted"), disabled=True))
                options.extend(Option(self._label(key)) for key in keys)
                self._rows.extend([None, *keys])

        add(_FIRST, [table[name] for name in FIRST if name in table])
        self._rows.append(_MORE)
        words = "▾ fewer settings" if self._more else "▸ more settings"
        options.append(Option(Content.styled(words, "$text-accent")))
        if self._more:
            for section, title in SECTIONS.items():
                add(title, [key for key in table.section(section) if key.name not in FIRST])
        self._list.clear_options()
        self._list.add_options(options)
        self._list.highlighted = at

    def _label(self, key: Key[Any]) -> Content:
        source = self.app.preferences.source(key)
        same = source == "default"
        return Content.assemble(
            (
                f"{'  ' if same else '* '}{FIRST.get(key.name, key.name):<28}",
                "$text-muted" if same else "bold",
            ),
            (_words(self.app.preferences[key]) or "–", "" if same else "bold"),
            ("" if same else f"  ({source})", "$text-muted"),
        )

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        key = self._rows[event.option_index]
        if isinstance(key, Key):
            about = f"{key.help[:1].upper()}{key.help[1:]}. Expected: {key.expected}. {key.name}, {key.env}"
            self.query_one(".about", Static).update(about)
        elif key == _MORE:
            self.query_one(".about", Static).update("All other settings, by their names in config.toml.")

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self.action_change()

    @action("enter", "changes one", asks=True)
    def action_change(self) -> bool:
        """Change the value of the setting; on "more settings", show or hide them."""
        at = self._list.highlighted
        row = None if at is None else self._rows[at]
        if row == _MORE:
            self._more = not self._more
            self._fill()
            return True
        if not isinstance(row, Key):
            return False

        question = f"{FIRST.get(row.name, row.name)}: {row.help}; expected: {row.expected}"
        asked = Ask(question, _words(self.app.preferences[row]), select=True)
        self.ask(asked, lambda text: self._put(row, text))
        return False

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
