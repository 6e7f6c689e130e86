"""NovelAI stories, scenarios and lorebooks: what is said around the text.

The text itself, with its retries, is read in :mod:`novelai_text`.
"""

from __future__ import annotations

from collections.abc import Sequence

from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower, notice, time_of
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.lore import add_lore, each, tell_placeholders
from srbwriter.story.formats.novelai_text import StoryText, from_blocks, from_document
from srbwriter.story.formats.packed import PackedError
from srbwriter.story.model import (
    DraftNode,
    JsonObject,
    LoreEntry,
    StoryDraft,
    as_list,
    as_object,
    keep_foreign,
)

NAME = "novelai"
SCENARIO_NAME = "novelai-scenario"
LOREBOOK_NAME = "novelai-lorebook"
CONTAINER_VERSION = 1

_ENCODED = (
    "The text of this NovelAI story is in an encoded block that cannot be read here ({reason}); everything"
    " else was imported. Export the story as plain text in NovelAI and import that for the text."
)


def matches_story(document: Document) -> bool:
    return "storyContainerVersion" in document.keys


def matches_scenario(document: Document) -> bool:
    return "scenarioVersion" in document.keys and "prompt" in document.keys


def matches_lorebook(document: Document) -> bool:
    return "lorebookVersion" in document.keys


def read_story(document: Document) -> StoryDraft:
    whole = top(document)
    if whole.integer("storyContainerVersion") != CONTAINER_VERSION:
        raise whole.error(f"{CONTAINER_VERSION}, the only version known", "storyContainerVersion")
    content = whole.need_object("content")
    draft, rest = _text(content)
    if (about := _object(whole, "metadata")) is not None:
        draft.title = about.text("title")
        draft.created = time_of(about, "createdAt")
        draft.modified = time_of(about, "lastUpdatedAt")
        _describe(draft, about)
        keep_foreign(draft.meta, f"{NAME}-metadata", about.rest())
    _add_context(draft, content)
    _add_lorebook(draft, content)
    keep_foreign(draft.meta, NAME, {**whole.rest(), **content.rest(), **rest})
    return draft


def read_scenario(document: Document) -> StoryDraft:
    """A story to begin from: its prompt is the text, in which places to fill in stand as they are."""
    whole = top(document)
    grower = Grower()
    prompt = whole.text("prompt")
    end = grower.add(grower.root, DraftNode("", text=prompt, author="writer")) if prompt else None
    draft = grower.draft(end, whole.text("title"))
    draft.byline = whole.text("author")
    _describe(draft, whole)
    _add_context(draft, whole)
    _add_lorebook(draft, whole)
    tell_placeholders(draft)
    keep_foreign(draft.meta, SCENARIO_NAME, whole.rest())
    return draft


def read_lorebook(document: Document) -> StoryDraft:
    whole = top(document)
    if not isinstance(whole.peek("entries"), list):
        raise whole.error("a list", "entries")
    draft = Grower().draft()
    _read_entries(draft, whole)
    keep_foreign(draft.meta, LOREBOOK_NAME, whole.rest())
    return draft


def _text(content: Cursor) -> tuple[StoryDraft, JsonObject]:
    """The draft with the story's text, and what of the text's fields is to be kept."""
    packed, plain = content.peek("document"), content.peek("story")
    if packed is None and plain is None:
        raise content.error("a story, or a document", "story")
    text: StoryText | None = None
    reason = "it is empty"
    if isinstance(packed, str) and packed:
        try:
            text = from_document(packed, content)
        except PackedError as error:
            reason = f"expected {error}"
    story = _object(content, "story")
    if story is not None and (text is None or not text.tree.story):
        text = from_blocks(story)
    rest: JsonObject = {"story": story.rest()} if story is not None and story.rest() else {}
    if text is None:
        draft = Grower().draft()
        if packed is not None:
            notice(draft, _ENCODED.format(reason=reason))
        return draft, rest
    grower, end = text.tree.grow()
    draft = grower.draft(end)
    if text.lost:
        steps = "step" if text.lost == 1 else "steps"
        notice(draft, f"{text.lost} {steps} of the story's history could not be made branches; all are kept.")
    return draft, rest


def _object(above: Cursor, key: str) -> Cursor | None:
    """An object that may be missing; anything else in its place is told, and stays among the unread."""
    found = above.object(key)
    if found is None and above.peek(key) is not None:
        above.tell("left out; expected an object", key)
    return found


def _describe(draft: StoryDraft, about: Cursor) -> None:
    """The description as the note of the whole story, and its tags."""
    draft.root.mark(note=about.text("description"))
    tags = as_list(about.peek("tags"))
    if all(isinstance(tag, str) and tag.strip() and "\n" not in tag for tag in tags):
        draft.root.mark(tags=tuple(map(str, tags)))
        about.skip(*(["tags"] if tags else []))


def _add_context(draft: StoryDraft, above: Cursor) -> None:
    """Memory comes first, the author's note second; how they are inserted, and more parts, are kept."""
    parts = above.good_members("context")
    settings = draft.root.settings
    rest: list[JsonObject] = []
    for index, part in parts:
        config = part.inner("contextConfig")
        if index == "0":
            settings.memory = _inserted(part, config) or None
        elif index == "1":
            settings.author_note = _inserted(part, config) or None
            settings.author_note_depth = _depth(config) if settings.author_note else None
        rest.append(part.rest())
    above.put_back("context", rest if any(rest) else None)


def _inserted(part: Cursor, config: Cursor) -> str:
    """The text with what is put before and behind it, unless that is only space."""
    text, prefix, suffix = part.text("text"), config.text("prefix"), config.text("suffix")
    return f"{prefix if prefix.strip() else ''}{text}{suffix if suffix.strip() else ''}" if text else ""


def _add_lorebook(draft: StoryDraft, above: Cursor) -> None:
    lorebook = _object(above, "lorebook")
    if lorebook is not None:
        _read_entries(draft, lorebook)
        above.put_back("lorebook", lorebook.rest())


def _read_entries(draft: StoryDraft, lorebook: Cursor) -> None:
    """The entries; those of a category that is switched off are off, too."""
    categories = [as_object(category) for category in as_list(lorebook.peek("categories"))]
    ids = [category.get("id") for category in categories if category.get("enabled") is False]
    off = [name for name in ids if isinstance(name, str)]
    add_lore(draft, each(lorebook, "entries", lambda entry, place: _entry(entry, f"novelai-{place}", off)))


def _entry(cursor: Cursor, entry_id: str, off: Sequence[str]) -> LoreEntry:
    config = cursor.inner("contextConfig")
    text = cursor.need_text("text")
    budget = config.number("tokenBudget")
    in_use = cursor.peek("category") not in off
    entry = LoreEntry(
        id=cursor.ident("id") or entry_id,
        name=cursor.text("displayName"),
        text=f"{config.text('prefix')}{text}{config.text('suffix')}",
        keys=cursor.texts("keys"),
        enabled=in_use and cursor.flag("enabled", True),
        constant=cursor.flag("forceActivation"),
        depth=_depth(config),
        scan_depth=cursor.integer("searchRange"),
        token_budget=int(budget) if budget is not None and budget > 1 else None,  # up to 1 it is a share
        order=config.integer("budgetPriority") or 0,
    )
    rest = cursor.rest()
    if not in_use:
        rest["enabled"] = cursor.peek("enabled")
    keep_foreign(entry.meta, NAME, rest)
    return entry


def _depth(config: Cursor) -> int | None:
    """Lines from the end; there -1 is the very end, and positions from 0 count from the top."""
    position = config.integer("insertionPosition")
    return -position - 1 if position is not None and position < 0 else None


STORY = Format(NAME, "NovelAI story", ".story", matches_story, read_story)
SCENARIO = Format(SCENARIO_NAME, "NovelAI scenario", ".scenario", matches_scenario, read_scenario)
LOREBOOK = Format(LOREBOOK_NAME, "NovelAI lorebook", ".lorebook", matches_lorebook, read_lorebook)
