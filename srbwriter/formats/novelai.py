"""NovelAI stories, scenarios and lorebooks.

The text of a story is in *fragments* (until 2022) or in a *document* of paragraphs, packed into base64. What
was retried or undone is not read. Facts: NovelAI's scripting types, and a story packed by the program in the
tests of Aedial/novelai-api.
"""

from __future__ import annotations

import base64
import io
import struct
from typing import Any

from srbwriter.formats.draft import Fields, Grower
from srbwriter.formats.lore import add_lore, read_entry
from srbwriter.formats.opening import Document, FormatError
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import Author, LoreEntry, as_list, as_object
from srbwriter.story.words import well_formed


def is_story(document: Document) -> bool:
    return "storyContainerVersion" in document.object


def read_story(document: Document) -> StoryDraft:
    whole = Fields(document.object)
    content, about = whole.inner("content"), whole.inner("metadata")
    story = content.inner("story")
    if content.raw("document") is None and content.raw("story") is None:
        raise FormatError(document.name, "content", "a story, or a document")
    text = _document_text(content.raw("document")) if content.raw("document") else ""
    # Of older versions, as a whole or in fragments:
    text = text or story.text("text") or "".join(each.text("data") for each in story.objects("fragments"))
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


# -- text ---------------------------------------------------------------------------------------------


def _document_text(packed: str) -> str:
    """Return the text of a document's paragraphs, which are sections."""
    value = _unpack(io.BytesIO(base64.b64decode(packed)))
    sections = {key: as_object(section).get("text") for key, section in value["sections"].items()}
    order = [key for key in as_list(value["order"]) if key in sections]
    texts = (sections[key] for key in dict.fromkeys([*order, *sections]))
    return "\n".join(well_formed(text) for text in texts if isinstance(text, str))


def _unpack(stream: io.BytesIO) -> Any:
    """Return what msgpackr, the JavaScript library, packed: MessagePack with its own additions.

    Records: extension ``r`` gives a list of names to a byte from 0x40 to 0x7f, and values follow. Bundled
    strings: extension ``b`` gives the place of two long texts; 0xc1 and a length takes the next piece of the
    second, or, with a negative length, of the first, in UTF-16 units. Extensions with one byte of content
    have an ordinary value after them. References: ``i`` numbers the value after it, ``p`` refers to it.
    """
    records: dict[int, list[str]] = {}
    numbered: dict[bytes, Any] = {}
    bundle = [io.BytesIO(), io.BytesIO()]  # in UTF-16

    def number(power: int, signed: bool = False) -> int:
        return int.from_bytes(stream.read(1 << power), signed=signed)

    def value() -> Any:
        token = stream.read(1)[0]
        if token in records:
            return {name: value() for name in records[token]}
        if token < 0x80 or token >= 0xE0:
            return token - 256 * (token >= 0xE0)
        if token < 0x90 or token in (0xDE, 0xDF):
            size = token & 15 if token < 0x90 else number(token - 0xDD)
            return {value(): value() for _ in range(size)}
        if token < 0xA0 or token in (0xDC, 0xDD):
            return [value() for _ in range(token & 15 if token < 0xA0 else number(token - 0xDB))]
        if token < 0xC0 or 0xD9 <= token <= 0xDB:
            size = token & 31 if token < 0xC0 else number(token - 0xD9)
            return stream.read(size).decode("utf-8", "replace")
        if 0xCC <= token <= 0xD3:
            return number(token & 3, signed=token >= 0xD0)
        if token in (0xCA, 0xCB):
            return struct.unpack(">f" if token == 0xCA else ">d", stream.read(4 << (token & 1)))[0]
        if token == 0xC1:
            length: int = value()
            return bundle[length > 0].read(2 * abs(length)).decode("utf-16-le", "replace")
        if 0xC7 <= token <= 0xC9 or 0xD4 <= token <= 0xD8:
            size = 1 << token - 0xD4 if token >= 0xD4 else number(token - 0xC7)
            return extension(chr(stream.read(1)[0]), stream.read(size))
        return {0xC2: False, 0xC3: True}.get(token)

    def extension(kind: str, content: bytes) -> Any:
        if kind == "r":
            records[0x40 | content[0] & 0x3F] = names = [str(name) for name in value()]
            return {name: value() for name in names}
        if kind == "b":
            here = stream.tell()
            stream.seek(here - len(content) + int.from_bytes(content[:4]))
            bundle[:] = [io.BytesIO(str(value()).encode("utf-16-le")) for _ in range(2)]
            stream.seek(here)
            return value()
        if kind == "i":
            numbered[content] = None  # a value that holds itself has a gap there
            numbered[content] = value()
        if kind in ("i", "p"):
            return numbered[content]
        return value() if len(content) == 1 and kind != "\0" else None  # a date, or undefined

    return value()
