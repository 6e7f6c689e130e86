"""The editor of the story: who wrote which words, matches of a search.

Undo belongs to the story, not to the widget. The screen connects the editor to the session.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from textual import events

from srbwriter import story
from srbwriter.tui.driver import Typed
from srbwriter.tui.prose import Mark, Prose, Span
from srbwriter.tui.write.colours import Spans

_PLACEHOLDER = "Begin here …"
_SAY_AGAIN_SECONDS = 4.0  # between two messages that the story is read-only


class StoryEditor(Prose):
    """The editor of the whole story."""

    def __init__(
        self, edited: Callable[..., object], joint: Callable[[int, str], str], id: str | None = None
    ) -> None:
        """``edited`` is called with every edit by the writer and ``pasted``; ``joint`` returns what stands
        before words that they type at a place."""
        super().__init__(id=id, placeholder=_PLACEHOLDER)
        self._edited, self._joint = edited, joint
        self._pastes = False
        self.digits_pick = False  # digits are commands, not text
        self.authors: Spans | None = None
        """The authors of the text; None if words are not coloured."""
        self.matches: Sequence[Span] = ()
        """Spans that are highlighted: in order, without overlaps."""
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
        """The story undoes, by a command."""

    action_redo = action_undo

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
        if self.authors is not None:
            for low, high, author in self.authors.between(start, end):
                if author != "writer":
                    yield low, high, author
        index = bisect_right(self.matches, start, key=lambda span: span[1])
        while index < len(self.matches) and self.matches[index][0] < end:
            here = self.matches[index] == self.selection
            yield *self.matches[index], "match-here" if here else "match"
            index += 1

    @property
    def view(self) -> tuple[int, int, int]:
        """The selection and the first visible character, to return to with :meth:`show_view`."""
        return self.origin, self.cursor, self.first_visible

    def show_view(self, view: tuple[int, int, int]) -> None:
        """Restore a selection and scroll to the first visible character."""
        self.origin, self.cursor, top = view
        self.scroll_to_character(top)
