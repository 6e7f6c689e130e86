"""Words on open sheets (dialogs), kept in the story with every key until the sheet is closed."""

from __future__ import annotations

from srbwriter.story import Story
from srbwriter.story.model import JsonObject, as_object

DRAFTS = "drafts"
"""The name of the story value with the texts of open sheets: sheet → words."""


class Draft:
    """The kept words of one sheet, called ``sheet``."""

    def __init__(self, story: Story, sheet: str) -> None:
        self._story, self._sheet = story, sheet
        left = _kept(story).get(sheet)
        self.words = left if isinstance(left, str) else None
        """The words on the sheet when the program crashed; None if the sheet was closed."""

    def typed(self, words: str) -> None:
        """Keep the words of the sheet."""
        if self._story.read_only is None:
            self._story.put_value(DRAFTS, _kept(self._story) | {self._sheet: words})

    def drop(self) -> None:
        """Close the sheet: its words are stored elsewhere or discarded."""
        kept = _kept(self._story)
        if kept.pop(self._sheet, None) is not None and self._story.read_only is None:
            self._story.put_value(DRAFTS, kept)


def sheets_left(story: Story) -> list[str]:
    """Return the sheets with words of an earlier run."""
    return [*_kept(story)]


def _kept(story: Story) -> JsonObject:
    return dict(as_object(story.value(DRAFTS)))  # pyright: ignore[reportArgumentType]
