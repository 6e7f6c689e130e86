"""The pane of one branch: a header line with its state, and its text.

A pane never grows, so a new token repaints one line and causes no layout. It reads its branch by cursor and
changes nothing: keys go to the commands.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from rich.cells import set_cell_size
from rich.segment import Segment
from textual.binding import Binding
from textual.geometry import Region
from textual.strip import Strip

from srbwriter.engine.generation import Branch, Cursor
from srbwriter.engine.types import BranchState, FinishReason
from srbwriter.prose import Unit, unit_ends
from srbwriter.session.prefix import Prefix
from srbwriter.tui.prose import Mark, Prose, Span
from srbwriter.tui.write.branch_words import NO_THOUGHTS, find_thoughts, head_line, state_sign, state_words
from srbwriter.tui.write.colours import Tints


def unit_step(text: str, offset: int, unit: Unit, direction: int) -> int:
    """Return the unit end after ``offset`` (``direction`` 1) or before it (-1); 0 is the start."""
    ends = unit_ends(text, unit)
    if direction > 0:
        return next((end for end in ends if end > offset), len(text.rstrip()))
    return next((end for end in reversed(ends) if end < offset), 0)


class BranchPane(Prose, inherit_bindings=False):
    """Shows one branch. ``number`` is shown to the reader, ``index`` is its place in the round."""

    CURSOR, TOP_ROWS = False, 1
    BINDINGS = [Binding("ctrl+c", "copy", "copy what is selected", show=False)]
    DEFAULT_CSS = """
    BranchPane {
        border-left: blank $background; border-right: blank $background; padding: 0 1;
        &:focus { border-left: outer $primary; border-right: outer $primary; }
    }
    """

    def __init__(self, index: int, follows: bool, hint: str) -> None:
        super().__init__(read_only=True)
        self.index, self.hint = index, hint  # the text of an empty pane
        self.number = index + 1
        self.branch: Branch | None = None
        self.prefix: Prefix | None = None  # the text that the branch goes on from
        self.take: int | None = None  # characters of the branch to pick; None means all
        self.thoughts = NO_THOUGHTS  # the model's thoughts before its text, which are hidden
        self.follows = follows  # whether the end is shown at first
        self.is_scrolled = False  # by the reader, since the branch was shown
        self.words_at = math.inf  # when the first words of its branch were shown (monotonic seconds)
        self.facts = ""  # the marks and the note of the branch, as the head shows them
        self.stale = False  # whether the text before the branch has changed since the branch was written
        self.is_key = True  # whether the number is the key that picks the branch
        self.head: str = ""
        """The header line, as painted."""
        self.tints: Tints | None = None  # colours of its words; None means uncoloured
        self._half = ""  # letters before the branch that its first word goes on with
        self.marks_of = self._marks
        self._whole = ""  # with thoughts
        self._read_to: Cursor | None = None

    # ---- content

    def show_branch(self, branch: Branch | None, again: bool = False) -> None:
        """Show another branch from its beginning; with ``again`` the same one, where it was scrolled to."""
        take, place = self.take, self.first_visible if self.is_scrolled and not self.follow else None
        self.branch, self._read_to, self._whole, self.take = branch, None, "", None
        self.stale = False
        if not again:
            self.is_scrolled, self.follow, self.words_at = False, self.follows, math.inf
        self._put_text("")
        self.refresh()  # its hint may go
        self.pull()
        if again:
            self.take = take if take is not None and take <= len(self.text) - len(self._half) else None
            if place is not None:
                self.scroll_to_character(min(place, len(self.text)))
        self.update()

    def pull(self) -> None:
        """Read what the branch has published since the last call, and paint only that."""
        branch = self.branch
        if branch is not None:
            delta = branch.read(self._read_to)
            self._read_to = delta.cursor
            if delta.reset or delta.text:
                self._whole = delta.text if delta.reset else self._whole + delta.text
                self.thoughts = find_thoughts(self._whole)
                end = self.thoughts.end
                own = self._whole[end:] if end is not None else ""
                self._half = self.prefix.half_word(own) if self.prefix is not None and not end else ""
                self._put_text(self._half + own if own else "")
            elif self.tints is not None and self.tints.stale(branch):
                self.update()
        self.placeholder = self.hint if branch is None else ""
        if branch is not None and branch.finish_reason is FinishReason.ERROR:
            self.placeholder = str(branch.error or branch.generation.error or "")
        self._set_head()

    def _put_text(self, text: str) -> None:
        if text and not self.text:
            self.words_at = time.monotonic()
        if self.text and text.startswith(self.text):
            last = self._paragraph(len(self.text))[0]
            self.put(len(self.text), len(self.text), text[len(self.text) :])
        else:
            self.put(0, len(self.text), text)
            last = 0
            self.take = min(self.take or 0, max(0, len(text) - len(self._half))) or None
        if self.begin != (begin := len(text) - len(text.lstrip(" \n"))) or not last:
            self.begin = begin  # blanks at the start would look like an indent
            self.scroll_to_character(begin)
            self.follow = self.follows and not self.is_scrolled
        self.update(last)

    # ---- the header line

    def _set_head(self) -> None:
        if (head := self._compose_head()) != self.head:
            self.head = head
            self.refresh(Region(0, 0, self.size.width, 1))
            self.update()  # what was killed is dim

    def _compose_head(self) -> str:
        branch = self.branch
        if branch is None:
            return f" {self.number} "
        state = "written for an earlier text" if self.stale else state_words(branch)
        thoughts = f"thought {self.thoughts.words} words" if self.thoughts.words else ""
        parts = [f"{state_sign(branch)} {state}".strip(), self.facts, thoughts]
        hidden = bool(self.size) and not self.follow and self.ends_below
        return head_line(self.number, parts, hidden, self.size.width - 1)

    def show_state(self, facts: str, stale: bool, is_key: bool) -> None:
        """Show the facts of the branch in the head, whether it is stale, and whether its number is a
        key."""
        if (facts, stale, is_key) != (self.facts, self.stale, self.is_key):
            self.facts, self.stale, self.is_key, self.head = facts, stale, is_key, ""
            self._set_head()

    def paint_top(self, y: int) -> Strip:
        name, branch = "head", self.branch
        if self.has_focus:
            name = "head-chosen"
        elif branch is not None and branch.state in (BranchState.WRITING, BranchState.FAILED):
            name = "head-writing" if branch.state is BranchState.WRITING else "head-failed"
        style = (self.style("") + self.style(name)).rich_style
        width, cap = self.size.width, len(f" {self.number} ")
        head = set_cell_size(f"{self.head[:cap]} {self.head[cap:]}", width)  # a blank behind the key
        key = style if self.has_focus or not self.is_key else (self.style("") + self.style("cap")).rich_style
        return Strip([Segment(head[:cap], key), Segment(head[cap:], style)], width)

    # ---- marks

    @property
    def _offset(self) -> int:
        """What a place in the shown text has to gain to be one in the branch's whole text."""
        return (self.thoughts.end or 0) - len(self._half)

    def _marks(self, start: int, end: int) -> Iterator[Mark]:
        branch = self.branch
        if self.stale or (branch and branch.finish_reason is FinishReason.KILLED and not branch.live):
            yield start, end, "dim"
        elif self.tints is not None and self.branch is not None:
            shift = self._offset
            for low, high, tint in self.tints.between(self.branch, max(0, start + shift), end + shift):
                if tint != "tint-0":
                    yield low - shift, high - shift, tint
        half = len(self._half)
        yield 0, half, "dim"
        if self.take is not None:
            yield half, half + self.take, "taken"
            yield half + self.take, len(self.text), "dim"

    def show_token(self, span: Span | None) -> None:
        """Select a token, given by characters of the branch's whole text, and show it."""
        start, end = (max(0, place - self._offset) for place in span or (0, 0))
        if self.selection != (start, end):
            self.is_scrolled = True
            self.origin, self.cursor = start, end
            self._bring(start)

    def _bring(self, place: int) -> None:
        """Scroll so that a character is visible."""
        if not self._is_visible(self._row_of(place)):
            self.scroll_to_character(place)
            self.scroll_rows(-(self._height // 2))
        self.follow = False
        self.update()

    # ---- reading and taking

    def on_resize(self) -> None:
        self.fit()
        self._set_head()

    def scroll_rows(self, rows: int) -> None:
        """Scroll; at the end of the text, follow it again."""
        super().scroll_rows(rows)
        self.is_scrolled = True
        self.follow = rows > 0 and not self.ends_below
        self._set_head()

    def page(self, pages: int) -> None:
        self.scroll_rows(pages * max(1, self._height - 1))

    def follow_end(self) -> None:
        """Keep the end of the text in view."""
        self.is_scrolled = self.follow = True
        self.update()
        self._set_head()

    def rewind_view(self) -> None:
        """Scroll to the beginning and stay there."""
        self.is_scrolled = True
        self.scroll_to_character(self.begin)
        self._set_head()

    @property
    def first_in_view(self) -> int:
        """The first visible character of the branch's whole text."""
        return max(0, self.first_visible + self._offset)

    def move_take(self, unit: Unit, direction: int) -> None:
        """Move the taking cursor by one unit and keep it in view; at the start, unset it."""
        if not self.text:
            return
        half = len(self._half)
        at = half + self.take if self.take is not None else (half if direction > 0 else len(self.text))
        self.take_to(unit_step(self.text, at, unit, direction) - half)

    def take_to(self, chars: int) -> None:
        """Put the taking cursor behind so many characters and keep it in view; 0 removes it."""
        half = len(self._half)
        self.take = max(0, min(chars, len(self.text) - half)) or None
        if self.take is not None and self._room:
            self._bring(half + self.take - 1)
        self.update()
