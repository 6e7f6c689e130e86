"""The editor of the story: who wrote which words, matches of a search.

Undo belongs to the story, not to the widget. The screen connects the editor to the session.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual import events
from textual.message import Message
from textual.widget import Widget

from srbwriter import story
from srbwriter.tui.prose import Mark, Prose, Span

_PLACEHOLDER = "Begin here …"
_SAY_AGAIN_SECONDS = 4.0  # between two messages that the story is read-only
_COVERED = 6  # rows at the bottom that a bar may cover


class Provenance:
    """The spans of a text by author, or by the tint of their tokens, in order."""

    def __init__(self, parts: Iterable[tuple[int, str]] = ()) -> None:
        """Take (length in characters, author) pairs; neighbours with one author become one span."""
        self._ends: list[int] = []
        self._authors: list[str] = []
        end = 0
        for length, author in parts:
            end += length
            if length:
                self._append(end, author)

    def _append(self, end: int, author: str) -> None:
        if self._authors and self._authors[-1] == author:
            self._ends[-1] = end
        else:
            self._ends.append(end)
            self._authors.append(author)

    @property
    def length(self) -> int:
        """The length of the text in characters."""
        return self._ends[-1] if self._ends else 0

    def between(self, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, author) of each span between ``start`` and ``end``."""
        index = bisect_right(self._ends, start)
        while start < end and index < len(self._ends):
            stop = min(end, self._ends[index])
            yield start, stop, self._authors[index]
            start, index = stop, index + 1

    def typed(self, start: int, end: int, length: int) -> None:
        """Record that the writer replaced ``start`` to ``end`` with ``length`` characters."""
        first = max(0, bisect_right(self._ends, start) - 1)
        last = min(len(self._ends), bisect_right(self._ends, end) + 1)
        begin, stop = self._ends[first - 1] if first else 0, self._ends[last - 1] if last else 0
        around = Provenance(
            [
                *((below - above, author) for above, below, author in self.between(begin, start)),
                (length, "writer"),
                *((below - above, author) for above, below, author in self.between(end, stop)),
            ]
        )
        grown = length - (end - start)
        later = [place + grown for place in self._ends[last:]]
        self._ends[first:] = [*(begin + place for place in around._ends), *later]
        self._authors[first:last] = around._authors


class View(NamedTuple):
    """The visible part of a story: a selection, and the first visible character."""

    start: int
    end: int
    top: int

    def after(self, edits: Iterable[story.Edit]) -> View:
        """Return this view of the text after ``edits``, which are in order and apart."""
        return View(*(_place_after(place, edits) for place in self))


def _place_after(place: int, edits: Iterable[story.Edit]) -> int:
    """Return where ``place`` is after ``edits``; inside a replaced span, the end of the new text."""
    grown = 0
    for edit in edits:
        if edit.end > place:
            return edit.start + grown + len(edit.text) if edit.start < place else place + grown
        grown += len(edit.text) - (edit.end - edit.start)
    return place + grown


@dataclass(slots=True)
class LastSearch:
    """The last search and its options, offered again the next time."""

    words: str = ""
    case: bool = False
    whole: bool = False


class StoryEditor(Prose):
    """The editor of the whole story."""

    class Undo(Message):
        """The writer pressed undo; ``forward`` means redo."""

        def __init__(self, forward: bool) -> None:
            self.forward = forward
            super().__init__()

    def __init__(
        self, edited: Callable[..., object], joint: Callable[[int, str], str], id: str | None = None
    ) -> None:
        """``edited`` is called with every edit by the writer and ``pasted``; ``joint`` returns what stands
        before words that they type at a place."""
        super().__init__(id=id, placeholder=_PLACEHOLDER)
        self._edited, self._joint = edited, joint
        self._pastes = False
        self._provenance: Provenance | None = None
        self._matches: Sequence[Span] = ()
        self._why_shut, self._said_at = "", -_SAY_AGAIN_SECONDS
        self.last_search = LastSearch()
        self.marks_of = self._marks

    # ---- edits

    def put(self, start: int, end: int, words: str) -> None:
        if self._provenance is not None:
            self._provenance.typed(start, end, len(words))
        super().put(start, end, words)

    def edited(self, start: int, end: int, words: str) -> None:
        self._edited(story.Edit(start, end, words), pasted=self._pastes)

    def type_words(self, words: str) -> None:
        start, end = self.selection
        joint = self._joint(start, words) if start == end and not self._pastes else ""
        super().type_words(joint + words)

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        self._paste(lambda: super(StoryEditor, self).on_paste(event))

    def action_paste(self) -> None:
        self._paste(super().action_paste)

    def _paste(self, act: Callable[[], None]) -> None:
        self._pastes = True
        try:
            act()
        finally:
            self._pastes = False

    def remember(self) -> None:
        """The story undoes."""

    def action_undo(self) -> None:
        self.post_message(self.Undo(forward=False))

    def action_redo(self) -> None:
        self.post_message(self.Undo(forward=True))

    def shut(self, why: str) -> None:
        """Make the editor read-only; ``why`` is shown to a writer who tries to type."""
        self.read_only, self._why_shut = True, why

    def refuse(self) -> None:
        now = time.monotonic()
        if now - self._said_at >= _SAY_AGAIN_SECONDS:
            self._said_at = now
            self.notify(self._why_shut, severity="error")

    def allow_focus(self) -> bool:
        """Refuse the focus while the editor is hidden: typed text must be visible."""
        shown = all(node.display for node in self.ancestors_with_self if isinstance(node, Widget))
        return shown and super().allow_focus()

    # ---- what is shown

    def _marks(self, start: int, end: int) -> Iterator[Mark]:
        if self._provenance is not None:
            for low, high, author in self._provenance.between(start, end):
                if author not in ("writer", "tint-0"):
                    yield low, high, author
        index = bisect_right(self._matches, start, key=lambda span: span[1])
        while index < len(self._matches) and self._matches[index][0] < end:
            here = self._matches[index] == self.selection
            yield *self._matches[index], "match-here" if here else "match"
            index += 1

    @property
    def provenance(self) -> Provenance | None:
        """The authors of the text; None if words are not tinted."""
        return self._provenance

    @provenance.setter
    def provenance(self, found: Provenance | None) -> None:
        self._provenance = found
        self.update()

    @property
    def matches(self) -> Sequence[Span]:
        """Spans that are highlighted: in order, without overlaps."""
        return self._matches

    @matches.setter
    def matches(self, found: Sequence[Span]) -> None:
        self._matches = found
        self.update()

    def select_match(self, start: int, end: int) -> None:
        """Select a span, and show it above a bar at the bottom."""
        self.select(start, end, covered=_COVERED)

    @property
    def view(self) -> View:
        """The selection and the first visible character, to return to with :meth:`show_view`."""
        return View(self.origin, self.cursor, self.first_visible)

    def show_view(self, view: View) -> None:
        """Restore a selection and scroll to the first visible character."""
        self.origin, self.cursor = view.start, view.end
        self.scroll_to_character(view.top)
