"""The editor of the story: who wrote which words, matches of a search.

Undo belongs to the story, not to the widget. The screen connects the editor to the session.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from textual import events
from textual.message import Message

from srbwriter import story
from srbwriter.tui.driver import Typed
from srbwriter.tui.prose import Mark, Prose, Span
from srbwriter.tui.write.colours import Spans

_PLACEHOLDER = "Begin here …"
_SAY_AGAIN_SECONDS = 4.0  # between two messages that the story is read-only
_COVERED = 6  # rows at the bottom that a bar may cover


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
        self.digits_pick = False  # digits are commands, not text
        self._authors: Spans | None = None
        self._matches: Sequence[Span] = ()
        self._why_shut, self._said_at = "", -_SAY_AGAIN_SECONDS
        self.last_search = ""
        """The words that were looked for last."""
        self.search_case = self.search_whole = False
        self.marks_of = self._marks

    # ---- edits

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        return not (self.digits_pick and key.isdecimal()) and super().check_consume_key(key, character)

    def edited(self, start: int, end: int, words: str) -> None:
        self._edited(story.Edit(start, end, words), pasted=self._pastes)

    def type_words(self, words: str) -> None:
        start, end = self.selection
        joint = self._joint(start, words) if start == end and not self._pastes else ""
        super().type_words(joint + words)

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        if isinstance(event, Typed):
            super().on_paste(event)
        else:
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

    # ---- what is shown

    def _marks(self, start: int, end: int) -> Iterator[Mark]:
        if self._authors is not None:
            for low, high, author in self._authors.between(start, end):
                if author != "writer":
                    yield low, high, author
        index = bisect_right(self._matches, start, key=lambda span: span[1])
        while index < len(self._matches) and self._matches[index][0] < end:
            here = self._matches[index] == self.selection
            yield *self._matches[index], "match-here" if here else "match"
            index += 1

    @property
    def authors(self) -> Spans | None:
        """The authors of the text; None if words are not coloured."""
        return self._authors

    @authors.setter
    def authors(self, found: Spans | None) -> None:
        if self._authors is not None or found is not None:
            self._authors = found
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
    def view(self) -> tuple[int, int, int]:
        """The selection and the first visible character, to return to with :meth:`show_view`."""
        return self.origin, self.cursor, self.first_visible

    def show_view(self, view: tuple[int, int, int]) -> None:
        """Restore a selection and scroll to the first visible character."""
        self.origin, self.cursor, top = view
        self.scroll_to_character(top)
