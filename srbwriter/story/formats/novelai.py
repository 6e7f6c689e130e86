"""NovelAI lorebooks and stories of the first container version."""

from __future__ import annotations

from typing import Any

from srbwriter.story.draft import Author, DraftNode, LoreEntry, StoryDraft, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower, notice, read_time
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document

NAME = "novelai"
LOREBOOK_NAME = "novelai-lorebook"
CONTAINER_VERSION = 1

_AUTHORS: dict[str, Author] = {"prompt": "writer", "user": "writer", "edit": "edited", "ai": "model"}
_ENCODED = (
    "The text of this NovelAI story is in an encoded block that cannot be read here; its memory, note and"
    " lorebook were imported. Export the story as plain text in NovelAI and import that for the text."
)


def matches_story(document: Document) -> bool:
    return "storyContainerVersion" in document.keys


def matches_lorebook(document: Document) -> bool:
    return "lorebookVersion" in document.keys


def read_story(document: Document) -> StoryDraft:
    whole = top(document)
    if whole.integer("storyContainerVersion") != CONTAINER_VERSION:
        raise whole.error(f"{CONTAINER_VERSION}, the only version known", "storyContainerVersion")
    content = whole.need_object("content")
    story = content.object("story")
    if story is None and content.peek("document") is None:
        raise content.error("a story, or a document", "story")
    grower = Grower()
    here = grower.root
    for node in _nodes(story) if story else []:
        here = grower.add(here, node)
    draft = grower.draft(here)
    if story is None:
        notice(draft, _ENCODED)
    _describe(draft, whole.object("metadata"))
    _add_context(draft, content)
    if lorebook := content.object("lorebook"):
        draft.root.settings.lore = _lore(lorebook)
    rest = {**whole.rest(), **content.rest()}
    if story and story.rest():
        rest["story"] = story.rest()
    keep_foreign(draft.meta, NAME, rest)
    return draft


def read_lorebook(document: Document) -> StoryDraft:
    whole = top(document)
    draft = Grower().draft()
    draft.root.settings.lore = _lore(whole)
    keep_foreign(draft.meta, NAME, whole.rest())
    return draft


def _nodes(story: Cursor) -> list[DraftNode]:
    """The fragments as a chain, neighbours of one origin joined; else the whole text."""
    fragments = story.objects("fragments")
    pieces = [(fragment.need_text("data"), fragment.text("origin")) for fragment in fragments]
    text = story.text("text")
    if not pieces or (text and "".join(data for data, _ in pieces) != text):
        return [DraftNode("", text=text)] if text else []
    nodes: list[DraftNode] = []
    for data, origin in pieces:
        author = _AUTHORS.get(origin, "imported")
        if nodes and nodes[-1].author == author:
            nodes[-1].text += data
        elif data:
            nodes.append(DraftNode("", text=data, author=author))
    return nodes


def _describe(draft: StoryDraft, about: Cursor | None) -> None:
    if about is None:
        return
    draft.title = about.text("title")
    draft.created = read_time(about.raw("createdAt"))
    draft.modified = read_time(about.raw("lastUpdatedAt"))
    keep_foreign(draft.meta, f"{NAME}-metadata", about.rest())


def _add_context(draft: StoryDraft, content: Cursor) -> None:
    """Memory comes first, the author's note second."""
    parts = [(part.text("text"), part.object("contextConfig")) for part in content.objects("context")]
    if parts and parts[0][0]:
        draft.root.settings.memory = parts[0][0]
    if len(parts) > 1 and parts[1][0]:
        draft.root.settings.author_note = parts[1][0]
        draft.root.settings.author_note_depth = _depth(parts[1][1])


def _lore(lorebook: Cursor) -> list[LoreEntry]:
    return [
        _entry(cursor, f"novelai-{index}") for index, cursor in enumerate(lorebook.need_objects("entries"))
    ]


def _entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    config = cursor.object("contextConfig")
    text = cursor.need_text("text")
    budget = config.number("tokenBudget") if config else None
    entry = LoreEntry(
        id=cursor.ident("id") or entry_id,
        name=cursor.text("displayName"),
        text=f"{config.text('prefix')}{text}{config.text('suffix')}" if config else text,
        keys=cursor.texts("keys"),
        enabled=cursor.flag("enabled", True),
        constant=cursor.flag("forceActivation"),
        depth=_depth(config),
        scan_depth=cursor.integer("searchRange"),
        token_budget=int(budget) if budget is not None and budget > 1 else None,  # up to 1 it is a share
        order=(config.integer("budgetPriority") if config else None) or 0,
    )
    rest: dict[str, Any] = cursor.rest()
    if config and config.rest():
        rest["contextConfig"] = config.rest()
    keep_foreign(entry.meta, NAME, rest)
    return entry


def _depth(config: Cursor | None) -> int | None:
    """Lines from the end; there -1 is the very end, and positions from 0 count from the top."""
    position = config.integer("insertionPosition") if config else None
    return -position - 1 if position is not None and position < 0 else None


STORY = Format(NAME, "NovelAI story", ".story", matches_story, read_story)
LOREBOOK = Format(LOREBOOK_NAME, "NovelAI lorebook", ".lorebook", matches_lorebook, read_lorebook)
