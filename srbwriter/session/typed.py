"""Words typed into running branches, kept on the disk until a node holds them. Knows the story alone."""

from __future__ import annotations

import logging
from typing import cast

from srbwriter.story import NodeId, Story
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


def take_up(story: Story) -> None:
    """After a crash: words typed into a branch become a node below it."""
    waiting = _waiting(story)
    if story.read_only is not None or not waiting:
        return
    for entry in waiting:
        match entry:
            case [int(node), str(text)] if story.is_living(node):
                story.add(node, [text], "writer")
            case _:
                log.warning("typed words without a place: %r", entry)
    story.put_value(TYPING, [])


def _waiting(story: Story) -> list[JsonValue]:
    waiting = story.value(TYPING)
    return cast("list[JsonValue]", waiting) if isinstance(waiting, list) else []
