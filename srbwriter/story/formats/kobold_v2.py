"""KoboldAI United saves, version 2: every action with its options."""

from __future__ import annotations

from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.kobold_text import NOTE_PLACE, Place, Shown, Tree, note_text
from srbwriter.story.formats.worldentry import kobold_entry
from srbwriter.story.model import JsonObject, LoreEntry, Settings, StoryDraft, foreign, keep_foreign

NAME = "kobold-united"
FILE_VERSION = 2


def matches(document: Document) -> bool:
    return "file_version" in document.keys and "actions" in document.keys


def read(document: Document) -> StoryDraft:
    whole = top(document)
    if whole.integer("file_version") != FILE_VERSION:
        raise whole.error(f"{FILE_VERSION}, the only version known", "file_version")
    tree = Tree(Shown({}), NAME)
    place = tree.grow(tree.start, whole.good_text("prompt"))
    actions = whole.need_object("actions")
    for cursor in _steps(actions):
        place = _grow(tree, place, cursor)
    draft = tree.draft(place, whole.text("story_name"))
    draft.root.settings, kept = _settings(whole)
    if actions.rest():
        kept["actions"] = actions.rest()
    keep_foreign(draft.meta, NAME, {**foreign(draft.meta, NAME), **whole.rest(), **kept})
    return draft


def _steps(actions: Cursor) -> list[Cursor]:
    steps: list[tuple[int, Cursor]] = []
    for key, cursor in actions.good_entries("actions", needed=True):
        if key.isdecimal() and len(key) < 10:
            steps.append((int(key), cursor))
        else:
            cursor.leave_out(cursor.error("a number for a key"))
    return [cursor for _, cursor in sorted(steps, key=lambda step: step[0])]


def _grow(tree: Tree, place: Place, cursor: Cursor) -> Place:
    """The chosen text and, beside it, the options that were not; a step without a choice adds nothing on."""
    chosen = cursor.good_text("Selected Text")
    after = tree.grow(place, chosen)
    node = tree.first_of(place, chosen)
    beside: JsonObject = {}
    for option in cursor.good_objects("Options"):
        text = option.good_text("text")
        other = tree.first_of(place, text) if text else None
        if other is None or other is node:
            beside.setdefault("Options", []).append(option.all())
        if other is not None:
            other.mark(bookmark=other.marks.bookmark or option.peek("Pinned") is True)
        if other is not None and other is not node:
            other.author = "model"
            option.skip("Pinned")
            with_foreign(other, NAME, {**foreign(other.meta, NAME), **option.rest()})
    holder = node or after.node
    with_foreign(holder, NAME, {**foreign(holder.meta, NAME), **cursor.rest(), **beside})
    return after


def _settings(whole: Cursor) -> tuple[Settings, JsonObject]:
    """The settings, and the fields to keep."""
    kept: JsonObject = {}
    world = whole.object("worldinfo_v2")
    lore: list[LoreEntry] = []
    for key, cursor in world.good_entries("entries") if world else []:
        lore.append(kobold_entry(cursor, f"kobold-{key}"))
        if lore[-1].id != key:
            keep_foreign(lore[-1].meta, "kobold", {**foreign(lore[-1].meta, "kobold"), "entry": key})
    if world and world.rest():
        kept["worldinfo_v2"] = world.rest()
    note, template = whole.text("authornote"), whole.text("authornotetemplate")
    if template and (not note or NOTE_PLACE not in template):
        kept["authornotetemplate"] = template
    settings = Settings(memory=whole.text("memory") or None, author_note=note_text(note, template), lore=lore)
    return settings, kept


FORMAT = Format(NAME, "KoboldAI United save", ".json", matches, read)
