"""Finding words in a long text and putting others in their place, and the two bars that do it.

The story's text has no focus meanwhile, so no key can replace what was found. Both bars find the same
places: what is counted is what is replaced.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from srbwriter.story.model import counted
from srbwriter.tui.commands import action
from srbwriter.tui.dialog import Bar
from srbwriter.tui.screens.ask import LineInput
from srbwriter.tui.widgets.story_editor import StoryEditor


class Finder:
    """The places of some words in ``text``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lowered: str | None = None
        self._words = ""
        self._starts: list[int] = []

    def look(self, words: str, case: bool = False, whole: bool = False) -> int:
        """Look for ``words`` from now on; the number of their places.

        Args:
            case: capitals and small letters differ.
            whole: not where a letter, a digit or an underscore stands before or behind.
        """
        self._words = words
        if not words:
            self._starts = []
            return 0
        if not case and self._lowered is None:
            self._lowered = _lowered(self._text)
        text, pattern = (self._text, words) if case else (self._lowered or "", _lowered(words))
        pattern = re.escape(pattern)
        if whole:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        self._starts = [found.start() for found in re.finditer(pattern, text)]
        return len(self._starts)

    def after(self, place: int) -> tuple[int, int] | None:
        """(first character, character after its last) of the next place that begins at or behind ``place``.

        Behind the last place comes the first one again. None if the words are nowhere.
        """
        return self._span(bisect_left(self._starts, place) % (len(self._starts) or 1))

    def before(self, place: int) -> tuple[int, int] | None:
        """The last place that ends at ``place`` or before it; before the first place comes the last one."""
        return self._span(bisect_right(self._starts, place - len(self._words)) - 1)

    def number(self, start: int) -> int:
        """Which place begins at ``start``; the first one is 1."""
        return bisect_left(self._starts, start) + 1

    def replaced(self, by: str) -> str:
        """The text with ``by`` in every place."""
        parts, behind = list[str](), 0
        for start in self._starts:
            parts += [self._text[behind:start], by]
            behind = start + len(self._words)
        return "".join([*parts, self._text[behind:]])

    def around(self, place: tuple[int, int], room: int) -> tuple[str, str, str]:
        """What stands before, in and behind a place, in its paragraph; at most ``room`` characters each."""
        start, end = place
        before = self._text[max(0, start - room) : start].rpartition("\n")[2]
        behind = self._text[end : end + room].partition("\n")[0]
        return before, self._text[start:end], behind

    def _span(self, index: int) -> tuple[int, int] | None:
        if not self._starts:
            return None
        return self._starts[index], self._starts[index] + len(self._words)


def _lowered(text: str) -> str:
    """``text`` in small letters, each where it was; two that change with their place have one form."""
    small = text.replace("İ", "i").lower()  # of all capitals only that one becomes two characters
    return small.replace("ς", "σ").replace("ſ", "s")


_ROOM = 30  # characters around a place in the preview


@dataclass(slots=True)
class Looked:
    """What is looked for, and how; offered again the next time."""

    words: str = ""
    case: bool = False
    whole: bool = False


class FindBar(Bar[None]):
    """``looked`` is what was looked for last, and learns what is looked for now."""

    KEYS = "In find and replace"
    HEADING = "Find · {keys}"
    DEFAULT_CSS = """
    FindBar Horizontal { height: 1; }
    FindBar #found { width: auto; min-width: 10; padding: 0 0 0 2; color: $foreground; }
    FindBar Input { width: 1fr; }
    """

    def __init__(self, editor: StoryEditor, looked: Looked) -> None:
        super().__init__()
        self._editor, self._looked = editor, looked
        self._finder = Finder(editor.whole)
        self._many = 0  # places
        self._asked: tuple[str, bool, bool] | None = None
        self._at: tuple[int, int] | None = None  # the place that is shown

    def content(self) -> ComposeResult:
        with Horizontal():
            yield LineInput(self._looked.words, id="words", compact=True, select_on_focus=True)
            yield Static(id="found", markup=False)

    def on_mount(self) -> None:
        self._look()

    @property
    def words(self) -> str:
        """What is looked for now."""
        return self.query_one("#words", LineInput).value

    @on(LineInput.Changed, "#words")
    def _changed(self) -> None:
        self._look()

    @on(LineInput.Submitted, "#words")
    def _submitted(self) -> None:
        self.action_go(1)

    @action("find_case", "alt+c", "case")
    def action_case(self) -> None:
        """Tell capitals and small letters apart, or not."""
        self._looked.case = not self._looked.case
        self._look()

    @action("find_whole", "alt+w", "whole words")
    def action_whole(self) -> None:
        """Find whole words only, or parts too."""
        self._looked.whole = not self._looked.whole
        self._look()

    # A line of input has its own enter, and ctrl+f would delete a word in it.
    @action("find_next", "down,ctrl+f", "next", 1)
    @action("find_previous", "up,shift+enter", "previous", -1)
    def action_go(self, step: int) -> None:
        """Show the next place from where the cursor is, or the one before; round at either end."""
        self._look()
        place = self._next(step)
        if place is not None:
            self._looked.words = self.words
            self._at = place
            self._editor.mark(*place)
        self._say()

    def _next(self, step: int) -> tuple[int, int] | None:
        """From the cursor on at first: the place it stands on counts, the one it stands behind does not."""
        start, end = self._at or (self._editor.place, self._editor.place)
        return self._finder.after(end) if step > 0 else self._finder.before(start)

    def _look(self) -> None:
        asked = self.words, self._looked.case, self._looked.whole
        if asked != self._asked:
            self._asked, self._at = asked, None
            self._many = self._finder.look(*asked)
            self._say()

    def _say(self) -> None:
        if not self.words:
            said = ""
        elif not self._many:
            said = "not in the story"
        elif self._at is None:
            said = f"{self._many} found"
        else:
            said = f"{self._finder.number(self._at[0])} of {self._many}"
        parts = said, "case" if self._looked.case else "", "whole words" if self._looked.whole else ""
        self.query_one("#found", Static).update(" · ".join(filter(None, parts)))

    def action_close(self) -> None:
        self._editor.unmark()
        self.close()


class ReplaceBar(FindBar):
    """``take`` is given the text with every place replaced; False leaves the bar open."""

    HEADING = "Replace · tab between the lines · {keys}"
    DEFAULT_CSS = """
    ReplaceBar #preview { color: $text-muted; height: auto; min-height: 1; max-height: 2; }
    """

    def __init__(self, editor: StoryEditor, looked: Looked, take: Callable[[str, int], bool]) -> None:
        super().__init__(editor, looked)
        self._take = take

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
        self._say()

    @on(LineInput.Submitted, "#by")
    def _replace(self) -> None:
        if self._many and self._take(self._finder.replaced(self._by), self._many):
            self._looked.words = self.words
            self.close()

    @property
    def _by(self) -> str:
        return self.query_one("#by", LineInput).value

    def _say(self) -> None:
        super()._say()
        place = self._at or self._next(1)
        preview = Content("")
        if place is not None:
            before, old, behind = self._finder.around(place, _ROOM)
            preview = Content.assemble(
                f"enter in the second line replaces {counted(self._many, 'place')}: …{before}",
                (old, "strike"), (self._by, "bold $text-accent"), f"{behind}…",
            )  # fmt: skip
        self.query_one("#preview", Static).update(preview)
