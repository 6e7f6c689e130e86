"""Every setting with its value and where that was said. Made from the table of configuration keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter import paths
from srbwriter.config import Key
from srbwriter.config.keys import SECTIONS
from srbwriter.tui.screens.ask import Ask
from srbwriter.tui.screens.push import leave, push

if TYPE_CHECKING:
    from srbwriter.tui.app import Workbench


class SettingsScreen(ModalScreen[None]):
    """Escape closes it; a change holds at once where it can, else the next time."""

    DEFAULT_CSS = """
    SettingsScreen { align: center middle; background: $background 60%; }
    SettingsScreen > Vertical {
        width: 96; max-width: 98%; height: 90%; background: $surface; border: round $primary; padding: 0 1;
    }
    SettingsScreen Static { height: auto; color: $text-muted; }
    SettingsScreen .title { color: $primary; text-style: bold; }
    SettingsScreen OptionList { height: 1fr; border: none; background: $surface; margin: 1 0; }
    SettingsScreen .about { height: 2; color: $foreground; }
    """

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._rows: list[Key[Any] | None] = []

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("Settings", classes="title")
            yield OptionList(compact=True)
            yield Static(classes="about", markup=False)
            yield Static(
                f"enter changes one · your own file {paths.config_file()} is never written · esc goes back",
                markup=False,
            )

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
        table = self._bench.preferences.table
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
        source = self._bench.preferences.source(key)
        same = source == "default"
        return Content.assemble(
            (f"{'  ' if same else '* '}{key.name:<28}", "$text-muted" if same else "bold"),
            (_words(self._bench.preferences[key]), "" if same else "bold"),
            ("" if same else f"  ({source})", "$text-muted"),
        )

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        key = self._rows[event.option_index]
        if key is not None:
            self.query_one(".about", Static).update(f"{key.help}. Expected {key.expected}. {key.env}")

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        key = self._rows[event.option_index]
        if key is None:
            return

        def answered(text: str | None) -> None:
            if text is not None:
                self._put(key, text)

        question = f"{key.name}: {key.help}; expected {key.expected}"
        push(self, Ask(question, _words(self._bench.preferences[key]), select=True), answered)

    def _put(self, key: Key[Any], text: str) -> None:
        try:
            value = key.read_text(text)
        except ValueError:
            self.notify(f"{text!r}: expected {key.expected}", severity="error", markup=False)
            return
        note = self._bench.preferences.put(key, value)
        self._bench.apply_preferences()
        self._fill()
        if note:
            self.notify(note, markup=False)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            leave(self)


def _words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)  # pyright: ignore
    return f"{value:g}" if isinstance(value, float) else str(value)
