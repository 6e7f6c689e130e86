"""Words on a sheet that is still open, kept on the disk until it is closed. Knows the story alone."""

from __future__ import annotations

import logging
from typing import cast

from srbwriter.story import NodeId, Story, StoryError
from srbwriter.story.draft import JsonValue

from .typed import give_place

log = logging.getLogger(__name__)

DRAFTS = "drafts"
"""The story value that holds them: sheet → words."""

_BELOW = "below"


class Draft:
    """The words on one sheet of ``story``, which ``sheet`` names in a word or two."""

    def __init__(self, story: Story, sheet: str) -> None:
        self._story, self._sheet = story, sheet
        self._for_story = _place(sheet) is not None

    @classmethod
    def below(cls, story: Story, node: NodeId, branch: int) -> Draft:
        """Words for the story itself, typed for ``branch``.

        Should nobody close the sheet, they become a node below ``node`` at the next start.
        """
        return cls(story, f"{_BELOW}:{node}:{branch}")

    @property
    def words(self) -> str | None:
        """What was on the sheet when the program died; None if it was closed as it should be."""
        words = None if self._for_story else _all(self._story).get(self._sheet)
        return words if isinstance(words, str) else None

    def keep(self, words: str) -> None:
        """Put ``words`` on the disk. Raises StoryError when the story cannot be written."""
        if self._for_story and not words.strip():
            self.drop()
        else:
            self._story.put_value(DRAFTS, {**_all(self._story), self._sheet: words})

    def drop(self) -> None:
        """The sheet has been closed; its words are kept elsewhere, or not wanted. Raises StoryError."""
        left = _all(self._story)
        if left.pop(self._sheet, None) is not None:
            self._story.put_value(DRAFTS, left)


def waiting(story: Story) -> list[str]:
    """The sheets that have words of before on them."""
    return [sheet for sheet in _all(story) if _place(sheet) is None]


def take_up(story: Story) -> int:
    """After a crash: words that were meant for the story become nodes of it. Says how many."""
    count = 0
    for sheet, words in _all(story).items() if story.read_only is None else ():
        if (place := _place(sheet)) is None:
            continue
        try:
            count += give_place(story, place, words)
            Draft(story, sheet).drop()
        except StoryError as error:  # they stay where they are until the next start
            log.warning("words of before cannot be put into the story yet: %s", error)
    return count


def _place(sheet: str) -> str | None:
    """The node that a sheet's words belong below, as it is written; None if they are no part of the story."""
    kind, _, rest = sheet.partition(":")
    return rest.partition(":")[0] if kind == _BELOW else None


def _all(story: Story) -> dict[str, JsonValue]:
    kept = story.value(DRAFTS)
    return dict(cast("dict[str, JsonValue]", kept)) if isinstance(kept, dict) else {}
