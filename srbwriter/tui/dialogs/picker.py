"""The list to choose from, with a line that narrows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
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


@dataclass(frozen=True, slots=True)
class Choice:
    """A list entry: the value to return, a title, a short description, a longer preview, and the heading of
    the entries that it is among."""

    value: Any
    title: str
    about: str = ""
    preview: str = ""
    group: str = ""


class Picker(Dialog[Any]):
    """A list with a line that narrows it. Dismissed with the value of the chosen entry, or None.

    Args:
        title: the heading.
        choices: the entries.
        at: the value of the entry that is highlighted first.
        typed: if there is one, nothing is narrowed: typed words close the list, and go there.
    """

    BADGE = "LIST"
    CSS_PATH = "picker.tcss"

    def __init__(
        self, title: str, choices: Sequence[Choice], *, at: Any = None,
        typed: Callable[[str], object] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heading = title
        self._choices, self._at, self._typed = list(choices), at, typed
        self._listed: list[Choice | None] = []  # None is a heading
        self._previews = any(choice.preview for choice in choices)
        self.set_class(self._previews, "-previews")

    def content(self) -> ComposeResult:
        placeholder = "type to narrow …" if self._typed is None else "or type: your words begin the story …"
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
        chosen = self.chosen.value if self.chosen is not None else None
        self._choices = list(choices)
        self._fill(chosen)

    @property
    def _list(self) -> OptionList:
        return self.query_one("#picker-list", OptionList)

    @property
    def chosen(self) -> Choice | None:
        """The highlighted entry."""
        at = self._list.highlighted
        return self._listed[at] if at is not None and at < len(self._listed) else None

    def _fill(self, at: Any = None) -> None:
        """List the entries that match the filter line, with the value ``at`` highlighted, or the first."""
        words = self.query_one(LineInput).value.casefold().split() if self._typed is None else []

        def matches(choice: Choice) -> bool:
            text = "\n".join((choice.title, choice.about, choice.group, choice.preview)).casefold()
            return all(word in text for word in words)

        found = list(filter(matches, self._choices))
        self._listed, options = [], list[Option]()
        for heading, choices in groupby(found, lambda choice: choice.group):
            if heading:
                self._listed.append(None)
                options.append(Option(Content.styled(heading, "bold $text-muted"), disabled=True))
            for choice in choices:
                self._listed.append(choice)
                options.append(Option(self.label(choice)))
        self._list.clear_options()
        self._list.add_options(options)
        if found:
            values = [choice.value if choice is not None else None for choice in self._listed]
            first = 1 if found[0].group else 0
            self._list.highlighted = values.index(at) if at is not None and at in values else first
        else:
            self._list.add_option(Option(Content(f"Nothing matches “{' '.join(words)}”."), disabled=True))

    def label(self, choice: Choice) -> Content:
        """Return an entry as it is listed."""
        return Content.assemble(choice.title, (f"  {choice.about}".rstrip(), "$text-muted"))

    @on(LineInput.Changed)
    def _narrowed(self, event: LineInput.Changed) -> None:
        if self._typed is None:
            self._fill()
        elif self.on_top:
            self.close()
            self._typed(event.value)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        if self._previews and (choice := self.chosen) is not None:
            self.query_one("#picker-preview", Static).update(choice.preview)
            self.query_one("#picker-side", VerticalScroll).scroll_home(animate=False)

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.action_take()

    @action("enter", "takes it")
    def action_take(self) -> None:
        """Use the highlighted entry."""
        if (choice := self.chosen) is not None:
            self.close(choice.value)

    @action("up", "up", "cursor_up", foot=False, priority=False)
    @action("down", "down", "cursor_down", foot=False, priority=False)
    @action("pageup", "page up", "page_up", foot=False, priority=False)
    @action("pagedown", "page down", "page_down", foot=False, priority=False)
    def action_move(self, how: str) -> None:
        """Move in the list while the filter line has the focus."""
        getattr(self._list, f"action_{how}")()
