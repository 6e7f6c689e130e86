"""The list to choose from, with a line that narrows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import LineInput
from srbwriter.tui.dialogs.base import Dialog
from srbwriter.tui.widgets.lines import matches


@dataclass(frozen=True, slots=True)
class Choice:
    """A list entry: the value to return, a title, a short description and a longer preview."""

    value: Any
    title: str
    about: str = ""
    preview: str = ""


class Picker(Dialog[Any]):
    """A list with a line that narrows it. Dismissed with the value of the chosen entry, or None.

    Args:
        title: the heading.
        choices: the entries.
        at: the value of the entry that is highlighted first.
        looked: is called with the value of each entry that is highlighted.
        foot: the foot, if not the usual one.
        aside: whether the list is at the edge, so that the screen below stays visible.
        typed: if there is one, nothing is narrowed: what is typed closes the list, and goes there.
    """

    KEYS = "Lists"
    BADGE = "LIST"
    CSS_PATH = "picker.tcss"

    def __init__(
        self, title: str, choices: Sequence[Choice], *, at: Any = None,
        looked: Callable[[Any], None] | None = None, foot: str = "", aside: bool = False,
        typed: Callable[[str], object] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heading, self.foot = title, foot or "enter takes it · {keys} · type to narrow"
        self._choices, self._at, self._looked, self._typed = list(choices), at, looked, typed
        self._listed = self._choices
        self._previews = any(choice.preview for choice in choices)
        self.set_class(self._previews, "-previews")
        self.set_class(aside, "-aside")

    def content(self) -> ComposeResult:
        placeholder = "narrow …" if self._typed is None else "or just type: your words begin the story …"
        yield LineInput(placeholder=placeholder, id="picker-filter", compact=True)
        with Horizontal():
            yield OptionList(id="picker-list", compact=True)
            if self._previews:
                with VerticalScroll(id="picker-side", can_focus=False):
                    yield Static(id="picker-preview", markup=False)

    def on_mount(self) -> None:
        self._fill(self._at)
        self.query_one(LineInput).focus()

    def replace(self, choices: Sequence[Choice]) -> None:
        """Show other words for the same values; the chosen entry stays chosen."""
        at = self._list.highlighted
        chosen = self._listed[at].value if at is not None and at < len(self._listed) else None
        self._choices = list(choices)
        self._fill(chosen)

    @property
    def _list(self) -> OptionList:
        return self.query_one("#picker-list", OptionList)

    def _fill(self, at: Any = None) -> None:
        """List the entries that match the filter line, with the value ``at`` highlighted, or the first."""
        words = self.query_one(LineInput).value.casefold().split() if self._typed is None else []
        self._listed = [choice for choice in self._choices if matches(words, choice.title, choice.about)]
        self._list.clear_options()
        self._list.add_options([
            Option(Content.assemble(choice.title, (f"  {choice.about}".rstrip(), "$text-muted")))
            for choice in self._listed
        ])  # fmt: skip
        if self._listed:
            values = [choice.value for choice in self._listed]
            self._list.highlighted = values.index(at) if at is not None and at in values else 0
        else:
            self._list.add_option(Option(Content(f"Nothing matches “{' '.join(words)}”."), disabled=True))

    @on(LineInput.Changed)
    def _narrowed(self, event: LineInput.Changed) -> None:
        if self._typed is None:
            self._fill()
        elif self.on_top:
            self.close()
            self._typed(event.value)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        choice = self._listed[event.option_index]
        if self._previews:
            self.query_one("#picker-preview", Static).update(choice.preview)
            self.query_one("#picker-side", VerticalScroll).scroll_home(animate=False)
        if self._looked is not None:
            self._looked(choice.value)

    @on(LineInput.Submitted)
    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        at = self._list.highlighted
        if at is not None and at < len(self._listed):
            self.close(self._listed[at].value)

    @action("up", "up", "cursor_up", foot=False, priority=False)
    @action("down", "down", "cursor_down", foot=False, priority=False)
    @action("pageup", "page up", "page_up", foot=False, priority=False)
    @action("pagedown", "page down", "page_down", foot=False, priority=False)
    def action_move(self, how: str) -> None:
        """Move in the list while the filter line has the focus."""
        getattr(self._list, f"action_{how}")()
