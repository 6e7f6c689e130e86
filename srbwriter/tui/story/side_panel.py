"""The side panel: memory, author's note and lorebook beside the story. It saves by itself, like the story."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter.story import ROOT, Settings
from srbwriter.story.context import DEFAULT_NOTE_DEPTH
from srbwriter.story.lore import keys_from, keys_text
from srbwriter.story.model import LoreEntry
from srbwriter.tui.commands import Keyed, action, keys_line_of
from srbwriter.tui.dialogs.ask import Confirm, LineInput
from srbwriter.tui.dialogs.base import Dialog
from srbwriter.tui.prose import Prose
from srbwriter.tui.widgets.lines import Foot

if TYPE_CHECKING:
    from srbwriter.session import Session

ChangeSettings = Callable[[Settings, str], Settings]
"""Writes the words of a field into the story's settings."""

MEMORY, NOTE, LORE = "memory", "author_note", "lore"
"""The parts of the panel; each is also the id of the widget that has the focus first."""

WIDE = 100
"""From so many columns on, the panel has a column of its own; below that, it covers the story."""

_LEAST_COLUMNS, _MOST_COLUMNS, _SHARE = 44, 56, 0.4  # of the panel's own column
_FOOT_ROWS = 2  # the status line and the key line stay visible
_MOST_LINES = 9999  # from the end of the story to the note

_EMPTY = "No entries yet. The model reads an entry when one of its keys occurs in the story."

ChangeEntry = Callable[[LoreEntry, str], LoreEntry]


def _named(entry: LoreEntry, name: str) -> LoreEntry:
    """Return an entry with another name; a key that was the name stays that."""
    follows = entry.keys == ([entry.name] if entry.name else [])
    return replace(entry, name=name, keys=[name] if follows and name else [] if follows else entry.keys)


_ENTRY_FIELDS: dict[str, tuple[str, str, Callable[[LoreEntry], str], ChangeEntry]] = {
    "lore_name": ("Name", "name of ", lambda e: e.name, lambda e, words: _named(e, words.strip())),
    "lore_keys": (
        "Keys", "keys of ", lambda e: keys_text(e.keys), lambda e, words: replace(e, keys=keys_from(words)),
    ),
    "lore_text": ("", "", lambda e: e.text, lambda e, words: replace(e, text=words)),
}  # fmt: skip
"""Widget id → label, beginning of the name in the draft, how to read the entry, and how to change it."""


@dataclass(slots=True)
class _Field:
    """A text of the panel: its name, its words now, and how they are put into the settings."""

    name: str
    words: str
    change: ChangeSettings


class LoreList(Keyed, OptionList):
    """The list of lorebook entries. Its keys act on the highlighted entry."""

    DEFAULT_CSS = "LoreList { border: none; padding: 0; background: $surface; }"

    @action("n", "new", "add_entry", priority=False)
    @action("enter", "text", "edit_entry", "lore_text", priority=False)
    @action("k", "keys", "edit_entry", "lore_keys", priority=False)
    @action("t", "always or by key", "switch", "constant", priority=False)
    @action("d", "delete", "delete_entry", priority=False)
    @action("u", "undo", "undo_list", priority=False)
    @action("space", "on or off", "switch", "enabled", priority=False)
    def action_do(self, act: str, *arguments: str) -> None:
        """Act on the highlighted entry: see the labels."""
        getattr(self.screen, act)(*arguments)


class SidePanel(Dialog[None]):
    """Memory, author's note and lorebook, beside the story. ``part`` is MEMORY, NOTE or LORE.

    Every change is saved within a second, and each field has an undo of its own.
    """

    OPENED_BY = "lore"
    BADGES: ClassVar = {MEMORY: "MEMORY", NOTE: "NOTE", "depth": "NOTE"}  # else it is the lorebook
    FOOT = "tab next · esc back · saves by itself"

    DEFAULT_CSS = """
    SidePanel { align: right top; background: $background 0%; }
    SidePanel > .box { max-width: 100%; max-height: 100%; border: none; padding: 0 1; background: $surface; }
    SidePanel.-beside > .box { border-left: vkey $primary; }
    SidePanel .part { height: 1fr; min-height: 2; }
    SidePanel .part:focus-within { height: 3fr; }
    SidePanel .head { height: 1; color: $primary; text-style: bold; }
    SidePanel Prose { height: 1fr; border: none; padding: 0; background: $background; }
    SidePanel Prose:focus { border: none; }
    SidePanel .line { height: 1; }
    SidePanel .label { width: auto; padding: 0 1 0 0; color: $text-muted; }
    SidePanel LineInput { width: 1fr; background: $background; }
    SidePanel .empty { height: auto; color: $text-muted; }
    SidePanel LoreList { height: 1fr; min-height: 1; }
    SidePanel #entry { display: none; height: 2fr; }
    SidePanel .part:focus-within #entry.-there { display: block; }
    SidePanel .keys { display: none; height: auto; color: $text-muted; }
    SidePanel .part:focus-within .keys { display: block; }
    """

    def __init__(self, session: Session, part: str) -> None:
        super().__init__()
        self._lists: list[list[LoreEntry]] = []  # before each change of the list
        self._session, self._story, self._part = session, session.story, part
        self._fields: dict[str, _Field] = {}  # by the id of the widget
        self._entries: list[LoreEntry] = []  # as they are shown
        self._shown = ""  # the id of the entry in the fields

    @property
    def badge(self) -> str:
        focused = self.focused.id if self.focused is not None else ""
        return self.BADGES.get(focused or "", "LORE")

    @on(events.DescendantFocus)
    def _moved(self) -> None:
        self.app.write_screen.show_mode()

    # ---- what is shown

    def content(self) -> ComposeResult:
        own = self._story.own_settings(ROOT)
        depth = "" if own.author_note_depth is None else str(own.author_note_depth)
        with Vertical(classes="part"):
            yield Static(_head("Memory", "before the story"), classes="head")
            yield Prose(self._open(MEMORY, MEMORY, own.memory or "", _put_memory), id=MEMORY)
        with Vertical(classes="part"):
            yield Static(_head("Author's note", "near the end of the story"), classes="head")
            yield Prose(self._open(NOTE, NOTE, own.author_note or "", _put_note), id=NOTE)
            with Horizontal(classes="line"):
                yield Static("Lines from the end of the story:", classes="label")
                lines = self._open("depth", "author_note_depth", depth, _put_depth)
                usual = str(DEFAULT_NOTE_DEPTH)
                yield LineInput(lines, placeholder=usual, compact=True, select_on_focus=False, id="depth")
        with Vertical(classes="part"):
            yield Static(_head("Lorebook", "entries whose keys occur"), classes="head")
            yield Static(_EMPTY, classes="empty", markup=False)
            yield LoreList(compact=True, id=LORE)
            yield Foot(keys_line_of(LoreList), classes="keys")
            with Vertical(id="entry"):
                for name, (label, *_) in _ENTRY_FIELDS.items():
                    if label:
                        with Horizontal(classes="line"):
                            yield Static(label.ljust(4), classes="label")
                            yield LineInput(compact=True, select_on_focus=False, id=name)
                    else:
                        yield Prose(id=name)

    def _open(self, widget: str, name: str, words: str, change: ChangeSettings) -> str:
        """Connect a widget to a text of the settings; return the words that the widget shows."""
        self._fields[widget] = _Field(name, words, change)
        return words

    def on_mount(self) -> None:
        self._fit()
        self._fill(0)
        self.query_one(f"#{self._part}").focus()
        for area in self.query(Prose):
            area.go_end()

    def on_unmount(self) -> None:
        self.app.write_screen.rearrange(panel_columns=0)

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Take a column of the window, or all of it, above the lines at the bottom."""
        width, height = self.app.size
        beside = width >= WIDE
        columns = min(_MOST_COLUMNS, max(_LEAST_COLUMNS, int(width * _SHARE))) if beside else width
        box = self.query_one(".box")
        box.styles.width, box.styles.height = columns, height - _FOOT_ROWS
        self.set_class(beside, "-beside")
        self.app.write_screen.rearrange(panel_columns=columns if beside else 0)

    @on(events.Click)
    def _clicked_story(self, event: events.Click) -> None:
        if event.widget is self:  # outside of the box
            self.action_close()
            self.app.write_screen.go_to_story()

    def action_close(self) -> None:
        if self.on_top:
            if any(not (entry.name or entry.text) for entry in self._entries):  # begun, and thought better of
                self._put(lambda lore: [entry for entry in lore if entry.name or entry.text], 0)
            self.app.write_screen.guarded(lambda: self._session.together(lambda: None))
            self.close()

    # ---- typing

    @on(Prose.Changed)
    def _typed_text(self, event: Prose.Changed) -> None:
        self._typed(event.prose.id or "", event.text)

    @on(LineInput.Changed)
    def _typed_line(self, event: LineInput.Changed) -> None:
        if event.input.id == "depth" and not _is_depth(event.input.value):
            wrong = f"{event.input.value.strip()} is not a number of lines; 0 is the very end."
            self.app.notify(wrong, severity="error")
        else:
            self._typed(event.input.id or "", event.input.value)

    def _typed(self, widget: str, words: str) -> None:
        known = self._fields.get(widget)
        if known is None or words == known.words:  # the panel itself has put the words there
            return
        known.words = words
        if self._story.read_only is None:
            self._story.put_settings(ROOT, known.change(self._story.own_settings(ROOT), words))
        if widget in _ENTRY_FIELDS and (at := self._at) is not None:
            entry = self._entries[at] = _ENTRY_FIELDS[widget][3](self._entries[at], words)
            self._show_entries()
            if widget == "lore_name":  # the first key may be the name
                line = self.query_one("#lore_keys", LineInput)
                line.value = self._fields["lore_keys"].words = keys_text(entry.keys)
                line.cursor_position = len(line.value)

    # ---- the lorebook

    @property
    def _at(self) -> int | None:
        """The index of the highlighted entry."""
        at = self.query_one(LoreList).highlighted
        return at if at is not None and at < len(self._entries) else None

    def _fill(self, at: int) -> None:
        """Show the entries of the story, with the one at index ``at`` highlighted."""
        self._entries = self._story.own_settings(ROOT).lore
        listing = self.query_one(LoreList)
        listing.clear_options()
        listing.add_options([Option(self._label(entry)) for entry in self._entries])
        self.query_one(".empty", Static).display = not self._entries
        self.query_one("#entry").set_class(bool(self._entries), "-there")
        if self._entries:
            listing.highlighted = min(at, len(self._entries) - 1)
        self._show_entry()

    @on(LoreList.OptionHighlighted)
    def _show_entry(self) -> None:
        """Put the highlighted entry into the fields."""
        entry = self._entries[self._at] if self._at is not None else None
        if entry is None or entry.id == self._shown:
            return
        self._shown = entry.id
        for widget, (_, prefix, read, change) in _ENTRY_FIELDS.items():
            put = partial(_put_entry, entry.id, change)
            words = self._open(widget, f"lorebook:{prefix}{entry.id}", read(entry), put)
            if widget == "lore_text":
                self.query_one(f"#{widget}", Prose).show(words)
            else:
                self.query_one(f"#{widget}", LineInput).value = words

    @on(LoreList.OptionSelected)
    def _selected(self) -> None:
        self.edit_entry("lore_text")

    def edit_entry(self, widget: str) -> None:
        """Go to a field of the highlighted entry."""
        if self._at is not None:
            self.query_one(f"#{widget}").focus()
        else:
            question = Confirm("There are no entries yet; n makes one.", {"escape": "goes back"})
            self.app.push_screen(question)  # words for an entry run no commands

    def add_entry(self) -> None:
        """Add an entry and go to its name, which is also its first key; enter goes on to its text."""
        self._put(lambda lore: [*lore, LoreEntry(id=uuid.uuid4().hex)], len(self._entries))
        self.edit_entry("lore_name")

    @on(LineInput.Submitted, "#lore_name, #lore_keys")
    def _named(self) -> None:
        self.edit_entry("lore_text")

    def delete_entry(self) -> None:
        """Delete the highlighted entry."""
        if (at := self._at) is not None:
            gone = self._entries[at].id
            self._put(lambda lore: [entry for entry in lore if entry.id != gone], at)

    def undo_list(self) -> None:
        """Undo the last change of the list, but for what was typed."""
        if self._lists:
            before = self._lists.pop()
            self._put(lambda _: before, 0)
            self._lists.pop()

    def switch(self, flag: Literal["constant", "enabled"]) -> None:
        """Turn a property of the highlighted entry on or off."""
        self._change(lambda entry: replace(entry, **{flag: not getattr(entry, flag)}))

    def _change(self, change: Callable[[LoreEntry], LoreEntry]) -> None:
        if (at := self._at) is not None:
            known = self._entries[at].id
            self._put(lambda lore: [change(entry) if entry.id == known else entry for entry in lore], at)

    def _put(self, change: Callable[[list[LoreEntry]], list[LoreEntry]], at: int) -> None:
        """Change the list of entries and highlight index ``at``. Raises StoryError."""

        own = self._story.own_settings(ROOT)
        self._story.put_settings(ROOT, replace(own, lore=change(own.lore)))
        self._lists.append(own.lore)
        self._fill(at)

    def _show_entries(self) -> None:
        listing = self.query_one(LoreList)
        for at, entry in enumerate(self._entries):
            listing.replace_option_prompt_at_index(at, self._label(entry))

    def _label(self, entry: LoreEntry) -> Content:
        state = "" if entry.enabled else "  off"
        name = (entry.name or "(no name yet)", "bold" if entry.enabled else "$text-muted")
        return Content.assemble(name, (f"  {_when(entry)}{state}", "$text-muted"))


def _head(title: str, state: str) -> Content:
    return Content.assemble((title, "bold $primary"), (f"  {state}", "$text-muted"))


def _when(entry: LoreEntry) -> str:
    """Say when the model reads an entry."""
    if entry.constant or not entry.keys:
        return "always" if entry.constant else "never: it has no keys"
    return keys_text(entry.keys)


def _is_depth(words: str) -> bool:
    """Return whether ``words`` are a number of lines, or nothing."""
    words = words.strip()
    return not words or (words.isdecimal() and int(words) <= _MOST_LINES)


def _put_memory(settings: Settings, words: str) -> Settings:
    return replace(settings, memory=words or None)


def _put_note(settings: Settings, words: str) -> Settings:
    return replace(settings, author_note=words or None)


def _put_depth(settings: Settings, words: str) -> Settings:
    return replace(settings, author_note_depth=int(words) if words.strip() else None)


def _put_entry(ident: str, change: ChangeEntry, settings: Settings, words: str) -> Settings:
    lore = [change(entry, words) if entry.id == ident else entry for entry in settings.lore]
    return replace(settings, lore=lore)
