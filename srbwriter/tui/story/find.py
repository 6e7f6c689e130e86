"""Find and replace in the story.

The story has no focus while a bar is open, so no key can overwrite the selected match. The matches that are
highlighted and counted are those that are replaced.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from srbwriter.story import Edit
from srbwriter.story.model import counted
from srbwriter.story.search import matches
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import LineInput
from srbwriter.tui.dialogs.base import Bar
from srbwriter.tui.prose import Span
from srbwriter.tui.write.story_editor import StoryEditor

_ROWS = 6  # at the bottom of the window, that the bar may cover


def place_after(place: int, edits: Sequence[Edit]) -> int:
    """Return where ``place`` is after ``edits``, which are in order and apart; inside a replaced span, the
    end of the new text."""
    grown = 0
    for edit in edits:
        if edit.end > place:
            return edit.start + grown + len(edit.text) if edit.start < place else place + grown
        grown += len(edit.text) - (edit.end - edit.start)
    return place + grown


class FindBar(Bar[None]):
    """The line for the words to find, and with ``apply`` one for those to put in their place.

    All matches are highlighted while the words are typed, and the first one after the cursor is selected.
    Escape restores the cursor and the visible part of the story. The editor keeps the last search. ``apply``
    gets the edits; it returns False if they failed.
    """

    DEFAULT_CSS = """
    FindBar Horizontal { height: 1; }
    FindBar #found { width: auto; min-width: 10; padding: 0 0 0 2; color: $foreground; }
    FindBar Input { width: 1fr; }
    FindBar Footer { display: block; }
    """

    def __init__(self, editor: StoryEditor, apply: Callable[[Sequence[Edit]], bool] | None = None) -> None:
        super().__init__()
        self.heading = "Replace: enter replaces this, ↓ skips it" if apply is not None else "Find"
        self._editor, self._apply = editor, apply
        self._spans: list[Span] = []
        self._at: Span | None = None  # the match that is selected
        self._before = editor.view

    @property
    def badge(self) -> str:
        return "FIND" if self._apply is None else "REPLACE"

    def content(self) -> ComposeResult:
        with Horizontal():
            yield LineInput(self._editor.last_search, id="words", compact=True, select_on_focus=True)
            yield Static(id="found", markup=False)
        if self._apply is not None:
            yield LineInput(id="by", placeholder="by …", compact=True)

    def on_mount(self) -> None:
        self._search()

    def on_unmount(self) -> None:
        self._editor.matches = ()
        self._editor.update()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        only = {"replace_all": True, "other_line": True, "stay": False}.get(action)
        return only is None or only == (self._apply is not None)

    @on(LineInput.Changed, "#words")
    def _changed(self, event: LineInput.Changed) -> None:
        if event.value != self._editor.last_search or not self._spans:
            self._search()
            self._editor.show_view(self._before)
            self._select(self._next(1))

    @on(LineInput.Submitted)
    def _submitted(self, event: LineInput.Submitted) -> None:
        """Go to the next match; in the second line, replace the one that is selected."""
        if self._apply is not None and event.input.id == "words":
            self.query_one("#by").focus()
            return
        if self._apply is not None and self._at is not None:
            self._replace([self._at])
        self._select(self._next(1))

    @action("alt+c", "case")
    def action_case(self) -> None:
        """Match case, or ignore it."""
        self._editor.search_case = not self._editor.search_case
        self._search()

    @action("alt+w", "whole words")
    def action_whole(self) -> None:
        """Match whole words only, or parts of words too."""
        self._editor.search_whole = not self._editor.search_whole
        self._search()

    # Enter is handled by the input line itself; ctrl+f would delete a word in it.
    @action("down,ctrl+f", "next", 1)
    @action("up", "previous", -1)
    def action_go(self, step: int) -> None:
        """Go to the next or previous match; wraps around at both ends."""
        self._select(self._next(step))

    @action("tab", "other line")
    def action_other_line(self) -> None:
        """Go to the other line."""
        self.focus_next()

    @action("tab", "stays there")
    def action_stay(self) -> None:
        """Close the bar with the cursor at the end of the match."""
        self._editor.move_to(self._editor.cursor)
        self.close()

    @action("alt+a", "replaces all")
    def action_replace_all(self) -> None:
        """Replace every match; one undo reverts it."""
        count = len(self._spans)
        if count and self._replace(self._spans):
            self.notify(f"Replaced in {counted(count, 'place')}.")
            self.action_close()

    def action_close(self) -> None:
        self._editor.show_view(self._before)
        self.close()

    def _replace(self, spans: Sequence[Span]) -> bool:
        edits = [Edit(*span, self.query_one("#by", LineInput).value) for span in spans]
        done = self._apply is not None and self._apply(edits)
        if done:
            start, end, top = (place_after(place, edits) for place in self._before)
            self._before = start, end, top
            self._search()
        return done

    def _select(self, place: Span | None) -> None:
        """Select a match in the story."""
        self._at = place
        if place is not None:
            self._editor.select(*place, covered=_ROWS)
        self._show_count()

    def _next(self, step: int) -> Span | None:
        """Return the next match in direction ``step``; the first search includes a match at the cursor."""
        if not self._spans:
            return None
        start, end = self._at or (self._editor.cursor, self._editor.cursor)
        if step > 0:
            return self._spans[bisect_left(self._spans, (end, 0)) % len(self._spans)]
        return self._spans[bisect_right(self._spans, start, key=lambda span: span[1]) - 1]

    def _search(self) -> None:
        """Find and highlight the words."""
        editor, words = self._editor, self.query_one("#words", LineInput).value
        found = matches(editor.text, words, case=editor.search_case, whole=editor.search_whole)
        self._spans, self._at = list(found), None
        if self._spans:
            editor.last_search = words
        editor.matches = self._spans
        editor.update()
        self._show_count()

    def _show_count(self) -> None:
        """Show the number of the selected match, how many there are, and the options."""
        if not self._spans:
            count = "not in the story" if self.query_one("#words", LineInput).value else ""
        elif self._at is None:
            count = f"{len(self._spans)} found"
        else:
            count = f"{bisect_left(self._spans, self._at) + 1} of {len(self._spans)}"
        case, whole = self._editor.search_case, self._editor.search_whole
        parts = count, "case" if case else "", "whole words" if whole else ""
        self.query_one("#found", Static).update(" · ".join(filter(None, parts)))
