"""What an importer leaves out of a file: how tests look for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from srbwriter.story.model import StoryDraft

NOTHING = object()


def notices(draft: StoryDraft) -> list[str]:
    return draft.meta.get("notices", [])


def told(draft: StoryDraft, *words: str) -> bool:
    """Whether one notice says all of these."""
    return any(all(word in text for word in words) for text in notices(draft))


def is_left_out(draft: StoryDraft, place: str, value: Any = NOTHING) -> bool:
    """Whether the writer is told of ``place``, and the value that was there, if any, is kept."""
    return told(draft, place) and (
        value is NOTHING or value is None or _holds(draft.meta.get("foreign"), value)
    )


def _holds(here: Any, value: Any) -> bool:
    inner: Iterator[Any] = iter(())
    if isinstance(here, dict):
        inner = iter(here.values())
    elif isinstance(here, list):
        inner = iter(here)
    return (type(here) is type(value) and here == value) or any(_holds(one, value) for one in inner)


def story_and_lore(draft: StoryDraft) -> str:
    """All that a story says but notices, what was left out, and the ids of lorebook entries."""
    told_of = ("notices", "foreign")
    about = {key: value for key, value in draft.meta.items() if key not in told_of}
    nodes: list[Any] = []
    for node in draft.nodes:
        settings = node.settings
        lore = [(entry.name, entry.text, entry.keys, entry.enabled, entry.meta) for entry in settings.lore]
        fields = (node.text, node.author, node.created, settings.memory, settings.author_note, node.meta)
        nodes.append((node.id, node.parent_id, node.marks.tags, lore, fields))
    return json.dumps((draft.title, draft.byline, draft.current_id, about, nodes))
