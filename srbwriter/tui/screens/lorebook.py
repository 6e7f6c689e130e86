"""The lorebook screen: entries that the model reads when one of their keys occurs in the story."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter.story import ROOT, StoryError
from srbwriter.story.lore import keys_from, keys_text
from srbwriter.story.model import LoreEntry, SecondaryLogic
from srbwriter.tui.commands import action
from srbwriter.tui.dialog import Dialog
from srbwriter.tui.screens.ask import AskWords, asks
from srbwriter.tui.screens.sheet import Sheet

if TYPE_CHECKING:
    from srbwriter.session import Session
    from srbwriter.session.typing import Draft

_LOGIC: dict[SecondaryLogic, str] = {
    "any": "and any of", "all": "and all of", "not_any": "but none of", "not_all": "but not all of",
}  # fmt: skip
_EMPTY = (
    "\nNo entries yet. The model reads an entry when one of its keys occurs in the story: "
    "a person, a place, a rule of this world. {lore_new} makes one."
)


class Lorebook(Dialog[None]):
    """The dialog for lorebook entries. Every change goes into the story at once."""

    HEADING = "Lorebook"
    KEYS = "In the lorebook"
    OPENED_BY = "lore"
    FOOT = "{keys}"

    DEFAULT_CSS = """
    Lorebook > .box { height: 70%; }
    Lorebook .empty { color: $text-muted; }
    Lorebook OptionList { height: 1fr; border: none; background: $surface; margin: 1 0; }
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session, self._story = session, session.story

    def content(self) -> ComposeResult:
        yield Static(self.with_keys(_EMPTY), classes="empty")
        yield OptionList(compact=True)

    def on_mount(self) -> None:
        self._fill(0)
        self.query_one(OptionList).focus()

    @property
    def entries(self) -> list[LoreEntry]:
        return self._story.own_settings(ROOT).lore

    def _put(self, entries: list[LoreEntry], at: int) -> bool:
        """Save ``entries``; return False if the story refuses them."""
        try:
            settings = replace(self._story.own_settings(ROOT), lore=entries)
            self._session.together(lambda: self._story.put_settings(ROOT, settings))
        except StoryError as error:
            self.notify(str(error), severity="error")
            return False
        self._fill(at)
        return True

    def _fill(self, at: int) -> None:
        listing = self.query_one(OptionList)
        listing.clear_options()
        listing.add_options([Option(_label(entry)) for entry in self.entries])
        self.query_one(".empty", Static).display = not self.entries
        if self.entries:
            listing.highlighted = min(at, len(self.entries) - 1)

    def _change(self, at: int, entry: LoreEntry | None) -> bool:
        entries = self.entries
        entries[at : at + 1] = [] if entry is None else [entry]
        return self._put(entries, at)

    # ---- keys

    def _entry_at_cursor(self) -> int | None:
        """Return the index of the entry under the cursor; without entries, notify the writer: None."""
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self.entries):
            return at
        self.notify(self.with_keys("There are no entries yet; {lore_new} makes one."))
        return None

    @action("lore_new", "n", "new")
    @asks
    def action_new(self) -> None:
        """Add an entry."""

        def take(name: str) -> bool:
            if not name:
                return True
            entry = LoreEntry(id=uuid.uuid4().hex, name=name, keys=[name])
            return self._put([*self.entries, entry], len(self.entries))

        def named(name: str | None) -> None:
            if name:
                self._write(len(self.entries) - 1)

        draft = self._session.draft("lorebook:new")
        self.open(AskWords("Name of the new entry; it is also its first key", take, draft), named)

    @action("lore_text", "enter", "text")
    @asks
    def action_text(self) -> None:
        """Edit the text that the model reads."""
        if (at := self._entry_at_cursor()) is not None:
            self._write(at)

    @action("lore_keys", "k", "keys")
    @asks
    def action_keys(self) -> None:
        """Edit the keys: words that bring the entry into the context."""
        self._keys("keys", 'Keys, with commas between them; a name with a comma is put in "quotes"')

    @action("lore_secondary", "s", "secondary keys")
    @asks
    def action_secondary(self) -> None:
        """Edit secondary keys, which narrow down when the entry applies."""
        self._keys("secondary", "Secondary keys, with commas between them")

    @action("lore_logic", "l", "secondary logic")
    def action_logic(self) -> None:
        """Require any, all, none or not all of the secondary keys."""
        if (at := self._entry_at_cursor()) is None:
            return
        entry, logics = self.entries[at], list(_LOGIC)
        if entry.secondary:
            after = logics[(logics.index(entry.logic) + 1) % len(logics)]
            self._change(at, replace(entry, logic=after))
        else:
            self.notify(
                self.with_keys("This entry has no secondary keys yet: press {lore_secondary} to add some.")
            )

    @action("lore_always", "t", "always or by key")
    def action_always(self) -> None:
        """Always include the entry, or only when a key occurs."""
        self._flip("constant")

    @action("lore_delete", "d", "delete")
    def action_delete(self) -> None:
        """Delete the entry; undo restores it."""
        if (at := self._entry_at_cursor()) is not None:
            draft = self._draft(self.entries[at])
            if self._change(at, None):
                draft.drop()

    @action("lore_enabled", "space", "on or off")
    def action_enabled(self) -> None:
        """Disable the entry, or enable it again."""
        self._flip("enabled")

    def _flip(self, field: Literal["constant", "enabled"]) -> None:
        if (at := self._entry_at_cursor()) is not None:
            entry = self.entries[at]
            self._change(at, replace(entry, **{field: not getattr(entry, field)}))

    def _keys(self, field: Literal["keys", "secondary"], question: str) -> None:
        if (at := self._entry_at_cursor()) is None:
            return
        entry = self.entries[at]

        def take(keys: str) -> bool:
            return self._change(at, replace(entry, **{field: keys_from(keys)}))

        draft = self._session.draft(f"lorebook:{field} of {entry.id}")
        self.open(AskWords(question, take, draft, keys_text(getattr(entry, field))))

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._write(event.option_index)

    def _write(self, at: int) -> None:
        """Open the editor for an entry's text."""
        entry = self.entries[at]

        def take(text: str) -> bool:
            return self._change(at, replace(entry, text=text))

        about = f"The model reads this when the story contains: {_when(entry)}"
        self.open(Sheet(entry.name, entry.text, about, take, self._draft(entry)))

    def _draft(self, entry: LoreEntry) -> Draft:
        return self._session.draft(f"lorebook:{entry.id}")


def _when(entry: LoreEntry) -> str:
    if entry.constant or not entry.keys:
        return "always" if entry.constant else "never: it has no keys"
    also = f" {_LOGIC[entry.logic]}: {keys_text(entry.secondary)}" if entry.secondary else ""
    return f"{keys_text(entry.keys)}{also}"


def _label(entry: LoreEntry) -> Content:
    state = "" if entry.enabled else "  off"
    return Content.assemble(
        (entry.name, "bold" if entry.enabled else "$text-muted"), (f"  {_when(entry)}{state}", "$text-muted")
    )
