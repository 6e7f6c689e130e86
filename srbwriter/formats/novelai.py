"""NovelAI stories, scenarios and lorebooks.

What was retried or undone is not read. Facts: NovelAI's scripting types, and a story packed by the program in
the tests of Aedial/novelai-api.
"""

from __future__ import annotations

from srbwriter.formats.draft import Fields, Grower
from srbwriter.formats.lore import add_lore, read_entry
from srbwriter.formats.opening import Document, FormatError
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import Author, LoreEntry

_PACKED = "the story's text is packed and was left out: export it as plain text in NovelAI, and import that"


def is_story(document: Document) -> bool:
    return "storyContainerVersion" in document.object


def read_story(document: Document) -> StoryDraft:
    whole = Fields(document.object)
    content, about = whole.inner("content"), whole.inner("metadata")
    story = content.inner("story")
    if content.raw("document") is None and content.raw("story") is None:
        raise FormatError(document.name, "content", "a story, or a document")
    # As a whole or in fragments; newer versions pack it by a library of JavaScript.
    text = story.text("text") or "".join(each.text("data") for each in story.objects("fragments"))
    if not text and content.raw("document"):
        document.tell(_PACKED)
    draft = _draft(text, "imported", about, content)
    return draft


def is_scenario(document: Document) -> bool:
    return {"scenarioVersion", "prompt"} <= set(document.object)


def read_scenario(document: Document) -> StoryDraft:
    """The prompt is the text, and places to fill in (``${name}``) stay in it."""
    whole = Fields(document.object)
    prompt = whole.text("prompt")
    draft = _draft(prompt, "writer", whole, whole)
    draft.byline = whole.text("author")
    return draft


def is_lorebook(document: Document) -> bool:
    return "lorebookVersion" in document.object


def read_lorebook(document: Document) -> StoryDraft:
    draft = Grower().draft()
    _add_lorebook(draft, Fields(document.object))
    return draft


def _draft(text: str, author: Author, about: Fields, content: Fields) -> StoryDraft:
    """Return a story of one text with memory (first in the context), author's note (second) and lorebook."""
    grower = Grower()
    draft = grower.draft(grower.add(grower.root, text, author) if text else None, about.text("title"))
    draft.root.note, draft.root.tags = about.text("description"), about.tags()
    settings = draft.root.settings
    for place, part in content.members("context"):
        config = part.inner("contextConfig")
        around = [words if words.strip() else "" for words in (config.text("prefix"), config.text("suffix"))]
        whole = part.text("text").join(around) if part.text("text") else None
        if place == "0":
            settings.memory = whole
        elif place == "1" and whole:
            settings.author_note, settings.author_note_depth = whole, _depth(config)
    draft.root.settings = settings
    _add_lorebook(draft, content.inner("lorebook"))
    return draft


def _add_lorebook(draft: StoryDraft, lorebook: Fields) -> None:
    """Add the entries; those of a category that is switched off are off, too."""
    off = [each.ident("id") for each in lorebook.objects("categories") if not each.flag("enabled", True)]
    entries: list[LoreEntry] = []
    for place, fields in lorebook.members("entries"):
        config, entry = fields.inner("contextConfig"), read_entry(fields, f"novelai-{place}")
        budget = config.integer("tokenBudget")  # else it is a share of the context
        entry.text = config.text("prefix") + entry.text + config.text("suffix")
        entry.enabled = entry.enabled and (fields.text("category") or None) not in off
        entry.depth, entry.order = _depth(config), config.integer("budgetPriority") or 0
        entry.token_budget = budget if budget and budget > 1 else None
        entries.append(entry)
    add_lore(draft, entries)


def _depth(config: Fields) -> int | None:
    """Return lines from the end; there -1 is the very end, and positions from 0 count from the top."""
    position = config.integer("insertionPosition")
    return -position - 1 if position is not None and position < 0 else None
