"""Words on a sheet that is still open, kept on the disk until it is closed. Knows the story alone."""

from __future__ import annotations

import logging
from typing import cast

from srbwriter.story import NodeId, Story
from srbwriter.story.draft import JsonValue

log = logging.getLogger(__name__)

DRAFTS = "drafts"
"""The story value that holds them: sheet → words."""

_BELOW = "below:"


class Draft:
    """The words on one sheet of ``story``, which ``sheet`` names in a word or two."""

    def __init__(self, story: Story, sheet: str) -> None:
        self._story, self._sheet = story, sheet

    @classmethod
    def below(cls, story: Story, node: NodeId) -> Draft:
        """Words for the story itself: should nobody close the sheet, they become a node below ``node``."""
        return cls(story, f"{_BELOW}{node}")

    @property
    def words(self) -> str | None:
        """What was on the sheet when the program died; None if it was closed as it should be."""
        words = _all(self._story).get(self._sheet)
        return words if isinstance(words, str) else None

    def keep(self, words: str) -> None:
        """Put ``words`` on the disk. Raises StoryError when the story cannot be written."""
        self._story.put_value(DRAFTS, {**_all(self._story), self._sheet: words})

    def drop(self) -> None:
        """The sheet has been closed; its words are kept elsewhere, or not wanted."""
        left = _all(self._story)
        if left.pop(self._sheet, None) is not None:
            self._story.put_value(DRAFTS, left)


def waiting(story: Story) -> list[str]:
    """The sheets that have words of before on them."""
    return list(_all(story))


def take_up(story: Story) -> None:
    """After a crash: words that were meant for the story become nodes of it."""
    for sheet, words in _all(story).items():
        if story.read_only is not None or not sheet.startswith(_BELOW):
            continue
        node = sheet.removeprefix(_BELOW)
        if node.isdecimal() and story.is_living(int(node)) and isinstance(words, str):
            story.add(int(node), [words], "writer")
        else:
            log.warning("words without a place: %r", words)
        Draft(story, sheet).drop()


def _all(story: Story) -> dict[str, JsonValue]:
    kept = story.value(DRAFTS)
    return dict(cast("dict[str, JsonValue]", kept)) if isinstance(kept, dict) else {}
