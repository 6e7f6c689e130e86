"""KoboldAI United saves, version 2: every action with its options."""

from __future__ import annotations

from srbwriter.story.draft import DraftNode, Marks, Settings, StoryDraft, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower, with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.kobold import note_text, strip_images
from srbwriter.story.formats.worldentry import kobold_entry

NAME = "kobold-united"
FILE_VERSION = 2


def matches(document: Document) -> bool:
    return "file_version" in document.keys and isinstance(document.object.get("actions"), dict)


def read(document: Document) -> StoryDraft:
    whole = top(document)
    if whole.integer("file_version") != FILE_VERSION:
        raise whole.error(f"{FILE_VERSION}, the only version known", "file_version")
    grower = Grower()
    prompt = DraftNode("", text=strip_images(whole.need_text("prompt")))
    here = grower.add(grower.root, prompt) if prompt.text else grower.root
    for cursor in _steps(whole.need_object("actions")):
        here = _grow(grower, here, cursor)
    draft = grower.draft(here, whole.text("story_name"))
    draft.root.settings = _settings(whole)
    keep_foreign(draft.meta, NAME, whole.rest())
    return draft


def _steps(actions: Cursor) -> list[Cursor]:
    steps: list[tuple[int, Cursor]] = []
    for key, cursor in actions.entries("actions"):
        if not key.isdecimal():
            raise cursor.error("a number for a key")
        steps.append((int(key), cursor))
    return [cursor for _, cursor in sorted(steps, key=lambda step: step[0])]


def _grow(grower: Grower, here: DraftNode, cursor: Cursor) -> DraftNode:
    """The chosen text and, beside it, the options that were not; a step without a choice adds nothing on."""
    options = [(strip_images(option.need_text("text")), option) for option in cursor.objects("Options")]
    chosen = strip_images(cursor.need_text("Selected Text"))
    next_node = grower.add(here, DraftNode("", text=chosen)) if chosen else here
    seen = {chosen}
    for text, option in options:
        pinned = option.flag("Pinned")
        if text in seen:
            next_node.marks.bookmark |= pinned and text == chosen
            continue
        seen.add(text)
        node = DraftNode("", text=text, author="model", marks=Marks(bookmark=pinned))
        grower.add(here, with_foreign(node, NAME, option.rest()))
    if chosen:
        with_foreign(next_node, NAME, cursor.rest())
    return next_node


def _settings(whole: Cursor) -> Settings:
    world = whole.object("worldinfo_v2")
    entries = world.entries("entries") if world else []
    return Settings(
        memory=whole.text("memory") or None,
        author_note=note_text(whole.text("authornote"), whole.text("authornotetemplate")),
        lore=[kobold_entry(cursor, f"kobold-{key}") for key, cursor in entries],
    )


FORMAT = Format(NAME, "KoboldAI United save", ".json", matches, read)
