"""The side panel: memory, author's note, the chapter's summary and lorebook beside the story.

It saves by itself, like the story.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter.story import ROOT
from srbwriter.story.context import DEFAULT_NOTE_DEPTH, keys_from, keys_text
from srbwriter.story.model import LoreEntry
from srbwriter.tui.commands import Keyed, action
from srbwriter.tui.dialogs.ask import Confirm, LineInput
from srbwriter.tui.prose import Prose

if TYPE_CHECKING:
    from srbwriter.session import Session
    from srbwriter.session.so_far import Part
    from srbwriter.tui.app import App

MEMORY, NOTE, LORE, SUMMARY = "memory", "author_note", "lore", "summary"
"""The parts of the panel; each is also the id of the widget that has the focus first."""

BESIDE, LASTS = 100, 180
"""From so many columns of the window on, the panel stands beside the story; and stays when it is left."""

_LEAST_COLUMNS, _MOST_COLUMNS, _SHARE = 44, 56, 0.27  # of the window
_MOST_LINES = 9999  # from the end of the story to the note


class LoreList(Keyed, OptionList):
    """The list of lorebook entries. Its keys act on the highlighted entry."""

    DEFAULT_CSS = "LoreList { border: none; padding: 0; background: $surface; }"

    @action("n", "new", "add_entry", priority=False)
    @action("enter", "text", "edit_entry", "lore_text", priority=False)
    @action("k", "keys", "edit_entry", "lore_keys", priority=False)
    @action("t", "always or by key", "switch", "constant", priority=False)
    @action("d", "delete", "delete_entry", priority=False)
    @action("u", "undo", "undo_delete", priority=False)
    @action("space", "on or off", "switch", "enabled", priority=False)
    def action_do(self, act: str, *arguments: str) -> None:
        """Act on the highlighted entry: see the labels."""
        getattr(self.query_ancestor(SidePanel), act)(*arguments)


class SidePanel(Keyed, Vertical):
    """Memory, author's note and lorebook: a column of the write screen, or all of a narrow one.

    Every change is saved within a second, and each field has an undo of its own.
    """

    OWN = ("undo", "redo", "switch", "back")
    """Commands whose keys mean something else here."""
    BADGES: ClassVar = {MEMORY: "MEMORY", NOTE: "NOTE", "depth": "NOTE"}  # else it is the lorebook

    DEFAULT_CSS = """
    SidePanel { height: 1fr; padding: 0 1; background: $surface; border-left: vkey $primary; }
    SidePanel .part { height: 1fr; min-height: 2; }
    SidePanel .part:focus-within { height: 3fr; }
    SidePanel .head { height: 1; color: $primary; text-style: bold; }
    SidePanel Prose { height: 1fr; }
    SidePanel .line { height: 1; }
    SidePanel .label { width: auto; padding: 0 1 0 0; color: $text-muted; }
    SidePanel LineInput { width: 1fr; background: $background; }
    SidePanel LoreList { height: 1fr; min-height: 1; }
    SidePanel #entry { display: none; height: 2fr; }
    SidePanel .part:focus-within #entry.-there { display: block; }
    """

    if TYPE_CHECKING:

        @property
        def app(self) -> App: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(self, session: Session, part: str) -> None:
        super().__init__()
        self._told: Part | None = None  # the chapter whose summary is shown
        self._session, self._story, self._part = session, session.story, part
        self._deleted: tuple[int, LoreEntry] | None = None  # the last one, and where it was
        self._shown = ""  # the id of the entry in the fields

    @property
    def badge(self) -> str:
        focused = self.screen.focused
        return self.BADGES.get((focused.id or "") if focused is not None else "", "LORE")

    # ---- what is shown

    def compose(self) -> ComposeResult:
        own = self._story.node(ROOT).settings
        depth = "" if own.author_note_depth is None else str(own.author_note_depth)
        with Vertical(classes="part"):
            yield Static(_head("Memory", "before the story; saves by itself"), classes="head")
            yield Prose(own.memory or "", id=MEMORY)
        with Vertical(classes="part"):
            yield Static(_head("Author's note", "near the end of the story"), classes="head")
            yield Prose(own.author_note or "", id=NOTE)
            yield from _line("depth", "Lines from the end of the story:", depth, str(DEFAULT_NOTE_DEPTH))
        with Vertical(classes="part", id="told"):
            yield Static(classes="head", id="summary_head")
            yield Prose(id=SUMMARY)
        with Vertical(classes="part"):
            yield Static(classes="head", id="lore_head")
            yield LoreList(compact=True, id=LORE)
            with Vertical(id="entry"):
                yield from _line("lore_name", "Name")
                yield from _line("lore_keys", "Keys")
                yield Prose(id="lore_text")

    def on_mount(self) -> None:
        self._show_summary()
        self._fill(0)
        for area in self.query(Prose):
            area.action_move("end")
        self.go(self._part)

    def lay_out(self, columns: int) -> None:
        """Take a column of a window of so many columns, or all of it."""
        beside = min(_MOST_COLUMNS, max(_LEAST_COLUMNS, int(columns * _SHARE)))
        self.styles.width = beside if columns >= BESIDE else "1fr"

    def go(self, part: str) -> None:
        """Give the keys to a part."""
        self._part = part
        self._show_summary()
        self.query_one(f"#{part}").focus()

    @action("escape", "story", priority=False)
    def action_leave(self) -> None:
        """Go back to the story; a wide window keeps the panel."""
        self._clean()
        self.app.write_screen.go_to_story()

    @action("tab", "next", 1, priority=False)
    @action("shift+tab", "previous", -1, priority=False)
    def action_next(self, step: int) -> None:
        """Go to the next or the previous field."""
        fields = [one for one in self.query("Prose, LineInput, LoreList") if one in self.screen.focus_chain]
        at = next((index for index, field in enumerate(fields) if field.has_focus), 0)
        fields[(at + step) % len(fields)].focus()

    def _clean(self) -> None:
        """Drop entries that were begun, and thought better of."""
        lore = self._story.node(ROOT).settings.lore
        if any(not (entry.name or entry.text) for entry in lore):
            self._put([entry for entry in lore if entry.name or entry.text], 0)
        self._session.together(lambda: None)

    # ---- typing

    @on(Prose.Changed)
    @on(LineInput.Changed)
    def _typed(self, event: Prose.Changed | LineInput.Changed) -> None:
        event.stop()
        words = self._line("depth").value.strip()
        if event.control.id == "depth" and not _is_depth(words):
            self.app.notify(f"{words} is not a number of lines; 0 is the very end.", severity="error")
        self._save()

    def _save(self) -> None:
        """Put what the fields say into the story."""
        if self._story.read_only is not None:
            return
        own, depth = self._story.node(ROOT).settings, self._line("depth").value.strip()
        lore = [self._as_typed(entry) if entry.id == self._shown else entry for entry in own.lore]
        lines = own.author_note_depth if not _is_depth(depth) else int(depth) if depth else None
        settings = replace(
            own, memory=self._text(MEMORY).text or None, author_note=self._text(NOTE).text or None,
            author_note_depth=lines, lore=lore,
        )  # fmt: skip
        if settings != own:
            self._story.put_settings(ROOT, settings)
            for index, entry in enumerate(lore):
                self.query_one(LoreList).replace_option_prompt_at_index(index, _label(entry))

    def _as_typed(self, entry: LoreEntry) -> LoreEntry:
        """Return an entry with what its fields say; the name is its first key until it has others."""
        name, keys = self._line("lore_name").value.strip(), self._line("lore_keys")
        if name != entry.name and keys_from(keys.value) == ([entry.name] if entry.name else []):
            _write(keys, keys_text([name] if name else []))
        return replace(entry, name=name, keys=keys_from(keys.value), text=self._text("lore_text").text)

    def _show_summary(self) -> None:
        """Show the summary of the chapter with the cursor, if it has one."""
        place = self.app.write_screen.editor.cursor
        parts = [(part, known) for part, known in self._session.book.parts() if part.begin <= place]
        self._told, summary = parts[-1] if parts else (None, None)
        self.query_one("#told").display = summary is not None
        if self._told is not None and summary is not None:
            by = "written by the model" if summary.by_model else "yours"
            self.query_one("#summary_head", Static).update(_head(f"So far: {self._told.title}", by))
            self._text(SUMMARY).show(summary.text)

    @on(Prose.Changed, f"#{SUMMARY}")
    def _typed_summary(self, event: Prose.Changed) -> None:
        """Keep a summary that the writer has changed; the model does not write over it."""
        book, told, words = self._session.book, self._told, " ".join(event.text.split())
        shown = next((summary for part, summary in book.parts() if part == told), None)
        if told and shown and words != shown.text and self._story.read_only is None:
            book.put(told, words)
            self.query_one("#summary_head", Static).update(_head(f"So far: {told.title}", "yours"))

    def _line(self, name: str) -> LineInput:
        return self.query_one(f"#{name}", LineInput)

    def _text(self, name: str) -> Prose:
        return self.query_one(f"#{name}", Prose)

    # ---- the lorebook

    @property
    def _entry(self) -> LoreEntry | None:
        """The highlighted entry."""
        at, lore = self.query_one(LoreList).highlighted, self._story.node(ROOT).settings.lore
        return lore[at] if at is not None and at < len(lore) else None

    def _fill(self, at: int) -> None:
        """Show the entries of the story, with the one at index ``at`` highlighted."""
        lore, listing = self._story.node(ROOT).settings.lore, self.query_one(LoreList)
        self._shown = ""
        listing.clear_options()
        listing.add_options([Option(_label(entry)) for entry in lore])
        state = "entries whose keys occur" if lore else "no entries yet"
        self.query_one("#lore_head", Static).update(_head("Lorebook", state))
        self.query_one("#entry").set_class(bool(lore), "-there")
        if lore:
            listing.highlighted = min(at, len(lore) - 1)
        self._show_entry()

    @on(LoreList.OptionHighlighted)
    def _show_entry(self) -> None:
        """Put the highlighted entry into the fields."""
        entry = self._entry
        if entry is None or entry.id == self._shown:
            return
        self._save()  # what was typed last
        self._shown = entry.id
        for line, words in (("lore_name", entry.name), ("lore_keys", keys_text(entry.keys))):
            _write(self._line(line), words)
        self._text("lore_text").show(entry.text)

    @on(LoreList.OptionSelected)
    @on(LineInput.Submitted, "#lore_name, #lore_keys")
    def _submitted(self) -> None:
        self.edit_entry("lore_text")

    def edit_entry(self, field: str) -> None:
        """Go to a field of the highlighted entry."""
        if self._entry is not None:
            self.query_one(f"#{field}").focus()
        else:
            question = Confirm("There are no entries yet; n makes one.", {"escape": "goes back"})
            self.app.push_screen(question)  # words for an entry run no commands

    def add_entry(self) -> None:
        """Add an entry and go to its name, which is also its first key; enter leads to its text."""
        lore = self._story.node(ROOT).settings.lore
        self._put([*lore, LoreEntry(id=uuid.uuid4().hex)], len(lore))
        self.edit_entry("lore_name")

    def delete_entry(self) -> None:
        """Delete the highlighted entry."""
        if (gone := self._entry) is not None:
            lore = self._story.node(ROOT).settings.lore
            at = lore.index(gone)
            self._deleted = at, gone
            self._put([*lore[:at], *lore[at + 1 :]], at)

    def undo_delete(self) -> None:
        """Bring the entry back that was deleted last."""
        if self._deleted is not None:
            lore, (at, back) = self._story.node(ROOT).settings.lore, self._deleted
            self._deleted = None
            self._put([*lore[:at], back, *lore[at:]], at)

    def switch(self, flag: Literal["constant", "enabled"]) -> None:
        """Turn a property of the highlighted entry on or off."""
        if (changed := self._entry) is not None:
            lore = self._story.node(ROOT).settings.lore
            other = replace(changed, **{flag: not getattr(changed, flag)})
            self._put([other if entry.id == changed.id else entry for entry in lore], lore.index(changed))

    def _put(self, lore: list[LoreEntry], at: int) -> None:
        """Change the list of entries and highlight index ``at``. Raises StoryError."""
        self._story.put_settings(ROOT, replace(self._story.node(ROOT).settings, lore=lore))
        self._fill(at)


def _head(title: str, state: str) -> Content:
    return Content.assemble((title, "bold $primary"), (f"  {state}", "$text-muted"))


def _line(name: str, label: str, words: str = "", usual: str = "") -> ComposeResult:
    with Horizontal(classes="line"):
        yield Static(label, classes="label")
        yield LineInput(words, placeholder=usual, compact=True, select_on_focus=False, id=name)


def _write(line: LineInput, words: str) -> None:
    line.value = words
    line.cursor_position = len(words)


def _label(entry: LoreEntry) -> Content:
    """Return the name of an entry, and when the model reads it."""
    when = "always" if entry.constant else keys_text(entry.keys) or "never: it has no keys"
    name = (entry.name or "(no name yet)", "bold" if entry.enabled else "$text-muted")
    return Content.assemble(name, (f"  {when}{'' if entry.enabled else '  off'}", "$text-muted"))


def _is_depth(words: str) -> bool:
    """Return whether ``words`` are a number of lines, or nothing."""
    return not words or (words.isdecimal() and int(words) <= _MOST_LINES)
