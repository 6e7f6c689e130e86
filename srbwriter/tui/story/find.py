"""Find and replace in the story: the search itself and the two bars.

The story has no focus while a bar is open, so no key can overwrite the selected match. Both bars share one
search: the matches that are highlighted and counted are those that are replaced.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from srbwriter.story import Edit
from srbwriter.story.model import counted
from srbwriter.story.search import matches
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import LineInput
from srbwriter.tui.dialogs.base import Bar
from srbwriter.tui.write.story_editor import StoryEditor


class Finder:
    """The matches of some words in ``text``; those of :func:`~srbwriter.story.search.matches`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.spans: list[tuple[int, int]] = []
        """The spans (start, end) of all matches, in order."""

    def search(self, words: str, case: bool = False, whole: bool = False) -> int:
        """Search for ``words`` and return the number of matches.

        Args:
            words: the words to find.
            case: match capitals and small letters exactly.
            whole: only match where no letter, digit or underscore comes directly before or after.
        """
        self.spans = list(matches(self._text, words, case=case, whole=whole))
        return len(self.spans)

    def after(self, place: int) -> tuple[int, int] | None:
        """Return the first match at or after ``place``, else the first of all; None if there is none."""
        if not self.spans:
            return None
        return self.spans[bisect_left(self.spans, (place, 0)) % len(self.spans)]

    def before(self, place: int) -> tuple[int, int] | None:
        """Return the last match that ends at or before ``place``, else the last of all."""
        if not self.spans:
            return None
        return self.spans[bisect_right(self.spans, place, key=lambda span: span[1]) - 1]

    def number(self, start: int) -> int:
        """Return the number of the match that starts at ``start``; the first is 1."""
        return bisect_left(self.spans, (start, 0)) + 1

    def edits(self, by: str) -> list[Edit]:
        """Return the edits that replace every match with ``by``."""
        return [Edit(start, end, by) for start, end in self.spans]

    def around(self, place: tuple[int, int], room: int) -> tuple[str, str, str]:
        """Return the text before, in and after a match within its paragraph, at most ``room`` characters
        each."""
        start, end = place
        before = self._text[max(0, start - room) : start].rpartition("\n")[2]
        after = self._text[end : end + room].partition("\n")[0]
        return before, self._text[start:end], after


_ROOM = 30  # characters around a place in the preview


class SearchBar(Bar[None]):
    """The line for the words to find; the editor keeps the last search.

    All matches are highlighted while the words are typed, and the first one after the cursor is selected.
    Closing the bar restores the cursor and the visible part of the story.
    """

    DEFAULT_CSS = """
    SearchBar Horizontal { height: 1; }
    SearchBar #found { width: auto; min-width: 10; padding: 0 0 0 2; color: $foreground; }
    SearchBar Input { width: 1fr; }
    """

    def __init__(self, editor: StoryEditor) -> None:
        super().__init__()
        self._editor, self._last = editor, editor.last_search
        self._finder = Finder(editor.text)
        self._count = 0  # matches
        self._searched: tuple[str, bool, bool] | None = None
        self._at: tuple[int, int] | None = None  # the match that is selected
        self._before = editor.view

    def content(self) -> ComposeResult:
        with Horizontal():
            yield LineInput(self._last.words, id="words", compact=True, select_on_focus=True)
            yield Static(id="found", markup=False)

    def on_mount(self) -> None:
        self._search()

    def on_unmount(self) -> None:
        self._editor.matches = ()

    @property
    def words(self) -> str:
        """The words in the input line."""
        return self.query_one("#words", LineInput).value

    @on(LineInput.Changed, "#words")
    def _changed(self) -> None:
        if self._search():
            self._editor.show_view(self._before)
            self._select(self._finder.after(self._before.end))

    @on(LineInput.Submitted, "#words")
    def _submitted(self) -> None:
        self.action_go(1)

    @action("alt+c", "case")
    def action_case(self) -> None:
        """Match case, or ignore it."""
        self._last.case = not self._last.case
        self._search()

    @action("alt+w", "whole words")
    def action_whole(self) -> None:
        """Match whole words only, or parts of words too."""
        self._last.whole = not self._last.whole
        self._search()

    # Enter is handled by the input line itself; ctrl+f would delete a word in it.
    @action("down,ctrl+f", "next", 1)
    @action("up", "previous", -1)
    def action_go(self, step: int) -> None:
        """Go to the next or previous match; wraps around at both ends."""
        self._search()
        self._select(self._next(step))

    def _select(self, place: tuple[int, int] | None) -> None:
        """Select a match in the story."""
        self._at = place
        if place is not None:
            self._editor.select_match(*place)
        self._show_count()

    def _next(self, step: int) -> tuple[int, int] | None:
        """Return the next match in direction ``step``; the first search includes a match at the cursor."""
        start, end = self._at or (self._editor.cursor, self._editor.cursor)
        return self._finder.after(end) if step > 0 else self._finder.before(start)

    def _search(self) -> bool:
        """Search if the words or the options have changed, and highlight the matches; return whether."""
        wanted = self.words, self._last.case, self._last.whole
        if wanted == self._searched:
            return False
        self._searched, self._at = wanted, None
        self._count = self._finder.search(*wanted)
        if self._count:
            self._last.words = self.words
        self._editor.matches = self._finder.spans
        self._show_count()
        return True

    def _show_count(self) -> None:
        """Show the number of the selected match, how many there are, and the options."""
        if not self.words:
            count = ""
        elif not self._count:
            count = "not in the story"
        elif self._at is None:
            count = f"{self._count} found"
        else:
            count = f"{self._finder.number(self._at[0])} of {self._count}"
        parts = count, "case" if self._last.case else "", "whole words" if self._last.whole else ""
        self.query_one("#found", Static).update(" · ".join(filter(None, parts)))

    def action_close(self) -> None:
        self._editor.show_view(self._before)
        self.close()


class FindBar(SearchBar):
    """The bar for finding words."""

    BADGE = "FIND"
    HEADING = (
        "Find · enter or ↓ next · ↑ previous · tab edits there · esc goes back to where you were · "
        "alt+c case · alt+w whole words"
    )

    @action("tab", "edits there")
    def action_stay(self) -> None:
        """Close the bar with the cursor at the end of the match."""
        self._editor.move_to(self._editor.cursor)
        self.close()


class ReplaceBar(SearchBar):
    """The bar for replacing. ``apply`` gets the edits; it returns False if they failed."""

    BADGE = "REPLACE"
    HEADING = (
        "Replace · tab between the lines · enter replaces this one · ↓ skips it · ↑ previous · "
        "alt+a replaces all · alt+c case · alt+w whole words · esc goes back"
    )
    DEFAULT_CSS = """
    ReplaceBar #preview { color: $text-muted; height: auto; min-height: 1; max-height: 2; }
    """

    def __init__(self, editor: StoryEditor, apply: Callable[[Sequence[Edit]], bool]) -> None:
        super().__init__(editor)
        self._apply = apply
        self._replaced = 0  # matches, one by one

    def content(self) -> ComposeResult:
        yield from super().content()
        with Horizontal():
            yield LineInput(id="by", placeholder="by …", compact=True)
        yield Static(id="preview")

    @on(LineInput.Submitted, "#words")
    def _submitted(self) -> None:
        self.query_one("#by", LineInput).focus()

    @on(LineInput.Changed, "#by")
    def _by_changed(self) -> None:
        self._show_count()

    @on(LineInput.Submitted, "#by")
    def _replace_this(self) -> None:
        """Replace the selected match and select the next one; without a selected one, only select one."""
        self._search()
        if self._at is None:
            self._select(self._next(1))
            return
        edit = Edit(*self._at, self._by)
        if self._replace([edit]):
            self._replaced += 1
            self._finder, self._searched = Finder(self._editor.text), None
            self._search()
            self._select(self._finder.after(edit.start + len(edit.text)))

    @action("alt+a", "replaces all")
    def action_replace_all(self) -> None:
        """Replace every match; one undo reverts it."""
        self._search()
        if self._count and self._replace(self._finder.edits(self._by)):
            self.notify(f"Replaced in {counted(self._count, 'place')}.")
            self.action_close()

    def _replace(self, edits: list[Edit]) -> bool:
        done = self._apply(edits)
        if done:
            self._before = self._before.after(edits)
        return done

    @property
    def _by(self) -> str:
        return self.query_one("#by", LineInput).value

    def _show_count(self) -> None:
        super()._show_count()
        place = self._at or self._next(1)
        preview = Content("")
        if place is not None:
            before, old, after = self._finder.around(place, _ROOM)
            preview = Content.assemble(
                f"…{before}", (old, "strike"), (self._by, "bold $text-accent"), f"{after}…"
            )
        elif self._replaced:
            preview = Content(f"Replaced {counted(self._replaced, 'place')}; there are no more.")
        self.query_one("#preview", Static).update(preview)
