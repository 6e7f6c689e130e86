"""Words on open sheets (dialogs), kept in the story with every key until the sheet is closed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from srbwriter.story import ROOT, NodeId, Story, StoryError
from srbwriter.story.model import JsonValue, as_list, as_object

log = logging.getLogger(__name__)

DRAFTS = "drafts"
"""The name of the story value with the texts of open sheets: sheet → words."""
_HANDED = "typing"
"""The name of the story value with what was typed into running branches in version 0.5: [node, words]."""
_BELOW = "below"  # prefix of a sheet with words for the story itself: "below:NODE:BRANCH"


class Draft:
    """The kept words of one sheet, called ``sheet``."""

    def __init__(self, story: Story, sheet: str) -> None:
        self._story, self._sheet = story, sheet
        left = None if _for_story(sheet) else drafts(story).get(sheet)
        self.words = left if isinstance(left, str) else None
        """The words on the sheet when the program crashed; None if the sheet was closed."""

    @staticmethod
    def below(node: NodeId, branch: int) -> str:
        """Return the name of a sheet with words for the story itself, typed for ``branch``.

        If it is not closed, they become a node below ``node`` at the next start.
        """
        return f"{_BELOW}:{node}:{branch}"

    def typed(self, words: str) -> None:
        """Keep the words of the sheet."""
        if self._story.read_only is None:
            self._story.put_value(DRAFTS, drafts(self._story) | {self._sheet: words})

    def drop(self) -> None:
        """Close the sheet: its words are stored elsewhere or discarded."""
        kept = drafts(self._story)
        if kept.pop(self._sheet, None) is not None and self._story.read_only is None:
            self._story.put_value(DRAFTS, kept)

    def give(self, words: str, take: Callable[[str], bool]) -> bool:
        """Pass the words to ``take`` and return its result; the draft stays if that is False or it raises."""
        taken = take(words)
        if taken:
            self.drop()
        return taken


def drafts(story: Story) -> dict[str, JsonValue]:
    """Return the kept drafts by sheet."""
    return dict(as_object(story.value(DRAFTS)))


def sheets_left(story: Story) -> list[str]:
    """Return the sheets with words of an earlier run."""
    return [sheet for sheet in drafts(story) if not _for_story(sheet)]


def take_up(story: Story) -> int:
    """Add words for the story that a crash left as drafts; return their number."""
    kept, handed = drafts(story), as_list(story.value(_HANDED))
    for_story = [sheet for sheet in kept if _for_story(sheet)]
    if story.read_only is not None or not (for_story or handed):
        return 0
    try:
        with story.together():
            count = sum(_give_place(story, sheet.split(":")[1], kept.pop(sheet)) for sheet in for_story)
            count += sum(_give_place(story, str(node), words) for node, words in map(as_list, handed))
            story.put_value(DRAFTS, kept)
            story.put_value(_HANDED, [])
            return count
    except StoryError as error:  # they stay where they are until the next start
        log.warning("words of before cannot be put into the story yet: %s", error)
        return 0


def _give_place(story: Story, place: str, words: JsonValue) -> bool:
    """Add ``words`` as a node below ``place``, or the root if it no longer exists; False for no words."""
    if not (isinstance(words, str) and words.strip()):
        return False
    living = place.isdecimal() and story.is_living(int(place))
    story.add(int(place) if living else ROOT, [words], "writer")
    return True


def _for_story(sheet: str) -> bool:
    """Whether a sheet holds words for the story itself."""
    return sheet.startswith(f"{_BELOW}:")
