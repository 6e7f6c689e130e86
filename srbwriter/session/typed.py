"""Words typed into running branches, kept on the disk until a node holds them. Knows the story alone."""

from __future__ import annotations

import logging
from typing import cast

from srbwriter.story import NodeId, Story, StoryError
from srbwriter.story.draft import JsonValue

log = logging.getLogger(__name__)

TYPING = "typing"
"""The story value that holds them: a list of [node, words]."""


def note(story: Story, node: NodeId, text: str) -> None:
    """Keep words typed into ``node`` until the branch has taken them up."""
    story.put_value(TYPING, [*_waiting(story), [node, text]])


def forget(story: Story) -> None:
    """The branches have taken everything up."""
    if story.value(TYPING):
        story.put_value(TYPING, [])


def take_up(story: Story) -> int:
    """After a crash: words typed into a branch become a node below it. Says how many."""
    waiting = _waiting(story)
    if story.read_only is not None or not waiting:
        return 0
    count = 0
    try:
        for entry in waiting:
            match entry:
                case [int(node), words]:
                    count += give_place(story, str(node), words)
                case _:
                    log.warning("typed words without a place: %r", entry)
        story.put_value(TYPING, [])
    except StoryError as error:  # they stay where they are until the next start
        log.warning("words of before cannot be put into the story yet: %s", error)
    return count


def give_place(story: Story, place: str, words: JsonValue) -> bool:
    """Make ``words`` a node below ``place``, both as a file has them; False if they are no words of a place.

    Raises StoryError when the story cannot be written.
    """
    if not (place.isdecimal() and story.is_living(int(place)) and isinstance(words, str) and words.strip()):
        log.warning("words without a place: %r", words)
        return False
    story.add(int(place), [words], "writer")
    return True


def _waiting(story: Story) -> list[JsonValue]:
    waiting = story.value(TYPING)
    return cast("list[JsonValue]", waiting) if isinstance(waiting, list) else []
