"""A list to choose from with a filter line, and letters for jumping to a branch."""

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

from srbwriter.tui.commands import action, key_name
from srbwriter.tui.dialogs.ask import LineInput
from srbwriter.tui.dialogs.base import Dialog


@dataclass(frozen=True, slots=True)
class Choice:
    """A list entry: the value to return, a title, a short description and a longer preview.

    Entries of one ``group`` are listed below its name.
    """

    value: Any
    title: str
    about: str = ""
    preview: str = ""
    group: str = ""

    def matches(self, words: Sequence[str]) -> bool:
        text = f"{self.title} {self.about}".casefold()
        return all(word in text for word in words)

    def rank(self, words: Sequence[str]) -> int:
        """Return the place of a matching entry among those that match ``words``: the best have the lowest."""
        return 0


class Picker(Dialog[Any]):
    """A list with a filter line. Dismissed with the value of the chosen entry, or None."""

    KEYS = "Lists"
    BADGE = "LIST"
    CSS_PATH = "picker.tcss"

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        at: Any = None,
        looked: Callable[[Any], None] | None = None,
        foot: str = "",
        aside: bool = False,
        typed: Callable[[str], object] | None = None,
    ) -> None:
        """``aside`` puts the list at the edge, so that the screen below stays visible.

        With ``typed`` there is nothing to narrow: what is typed closes the list, and goes there.
        """
        super().__init__()
        self._typed = typed
        self.heading = title
        self._choices = list(choices)
        self._listed: list[Choice | None] = list(choices)  # None is the name of a group
        self._at = at
        self._looked = looked
        self.foot = foot or "enter takes it · {keys} · type to narrow"
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
        self._fill()
        values = [choice.value if choice is not None else None for choice in self._listed]
        if self._at is not None and self._at in values:
            self._list.highlighted = values.index(self._at)
        self.query_one(LineInput).focus()

    def replace(self, choices: Sequence[Choice]) -> None:
        """Show other words for the same values; the chosen entry stays chosen."""
        at = self._list.highlighted
        chosen = self._listed[at] if at is not None and at < len(self._listed) else None
        self._choices = list(choices)
        self._fill()
        values = [choice.value if choice is not None else None for choice in self._listed]
        if chosen is not None and chosen.value in values:
            self._list.highlighted = values.index(chosen.value)

    @property
    def _list(self) -> OptionList:
        return self.query_one("#picker-list", OptionList)

    def _fill(self) -> None:
        words = self.query_one(LineInput).value.casefold().split()
        found = [choice for choice in self._choices if choice.matches(words)]
        found.sort(key=lambda choice: choice.rank(words))
        groups = list(dict.fromkeys(choice.group for choice in found))
        self._listed = []
        self._list.clear_options()
        for group in groups:
            if group:
                self._listed.append(None)
                self._list.add_option(Option(Content.styled(group, "bold $primary"), disabled=True))
            entries = [choice for choice in found if choice.group == group]
            self._listed += entries
            self._list.add_options([Option(self._label(choice)) for choice in entries])
        if found:
            self._list.highlighted = 1 if groups[0] else 0
            return
        typed = " ".join(self.query_one(LineInput).value.split())
        none = f"Nothing matches “{typed}”. {key_name('backspace')} widens the search."
        self._list.add_option(Option(Content(none), disabled=True))
        if self._previews:
            self.query_one("#picker-preview", Static).update("")

    @staticmethod
    def _label(choice: Choice) -> Content:
        return Content.assemble(choice.title, (f"  {choice.about}" if choice.about else "", "$text-muted"))

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
        if choice is None:
            return
        if self._previews:
            self.query_one("#picker-preview", Static).update(choice.preview)
            self.query_one("#picker-side", VerticalScroll).scroll_home(animate=False)
        if self._looked is not None:
            self._looked(choice.value)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._close_with(event.option_index)

    @on(LineInput.Submitted)
    def _submitted(self) -> None:
        self._close_with(self._list.highlighted)

    def _close_with(self, at: int | None) -> None:
        choice = self._listed[at] if at is not None and at < len(self._listed) else None
        if choice is not None:
            self.close(choice.value)

    @action("up", "up", "cursor_up", foot=False, priority=False)
    @action("down", "down", "cursor_down", foot=False, priority=False)
    @action("pageup", "page up", "page_up", foot=False, priority=False)
    @action("pagedown", "page down", "page_down", foot=False, priority=False)
    def action_move(self, how: str) -> None:
        """Move in the list while the filter line has the focus."""
        getattr(self._list, f"action_{how}")()
