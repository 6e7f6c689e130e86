"""NovelAI stories, scenarios and lorebooks.

The text of a story is in *fragments* (until 2022) or in a *document* of paragraphs, packed by msgpackr into
base64. What was retried or undone is not read. Facts: NovelAI's scripting types,
and a story packed by the program in the tests of Aedial/novelai-api.
"""

from __future__ import annotations

import base64
import io
import struct
from typing import Any

from srbwriter.formats.draft import Fields, Grower, read_time
from srbwriter.formats.lore import add_lore
from srbwriter.formats.opening import Document, FormatError
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import Author, LoreEntry, as_list, as_object
from srbwriter.story.words import well_formed


def is_story(document: Document) -> bool:
    return "storyContainerVersion" in document.object


def read_story(document: Document) -> StoryDraft:
    whole = Fields(document.object)
    content, about = whole.inner("content"), whole.inner("metadata")
    packed, story = content.raw("document"), content.inner("story")
    if packed is None and content.raw("story") is None:
        raise FormatError(document.name, "content", "a story, or a document")
    text = _document_text(packed) if packed else ""
    # Of older versions, as a whole or in fragments:
    text = text or story.text("text") or "".join(each.text("data") for each in story.objects("fragments"))
    draft = _draft(text, "imported", about, content)
    draft.created, draft.modified = read_time(about.raw("createdAt")), read_time(about.raw("lastUpdatedAt"))
    return draft


def is_scenario(document: Document) -> bool:
    return {"scenarioVersion", "prompt"} <= set(document.object)


def read_scenario(document: Document) -> StoryDraft:
    """The prompt is the text, and places to fill in (``${name}``) stay in it."""
    whole = Fields(document.object)
    prompt = whole.text("prompt")
    draft = _draft(prompt, "writer", whole, whole)
    draft.byline = whole.text("author")
    if "${" in prompt:
        document.tell("places to fill in, such as ${name}, stand in the text as they are")
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
    for place, entry in lorebook.members("entries"):
        config = entry.inner("contextConfig")
        budget = config.integer("tokenBudget")  # else it is a share of the context
        entries.append(
            LoreEntry(
                id=entry.ident("id") or f"novelai-{place}",
                name=entry.text("displayName"),
                text=config.text("prefix") + entry.text("text") + config.text("suffix"),
                keys=entry.texts("keys"),
                enabled=entry.flag("enabled", True) and (entry.text("category") or None) not in off,
                constant=entry.flag("forceActivation"),
                depth=_depth(config),
                scan_depth=entry.integer("searchRange"),
                token_budget=budget if budget and budget > 1 else None,
                order=config.integer("budgetPriority") or 0,
            )
        )
    add_lore(draft, entries)


def _depth(config: Fields) -> int | None:
    """Return lines from the end; there -1 is the very end, and positions from 0 count from the top."""
    position = config.integer("insertionPosition")
    return -position - 1 if position is not None and position < 0 else None


# -- text ---------------------------------------------------------------------------------------------


def _document_text(packed: Any) -> str:
    """Return the text of a document's paragraphs, which are sections."""
    value = _Unpacker(base64.b64decode("".join(packed.split()), validate=True)).value()
    sections = {key: as_object(section).get("text") for key, section in value["sections"].items()}
    order = [key for key in as_list(value["order"]) if key in sections]
    texts = [sections[key] for key in dict.fromkeys([*order, *sections])]
    return "\n".join(well_formed(text) for text in texts if isinstance(text, str))


class _Unpacker:
    """Reads what msgpackr, the JavaScript library, packs: MessagePack with its own additions.

    Records: extension ``r`` gives a list of names to a byte from 0x40 to 0x7f, and values follow. Bundled
    strings: extension ``b`` gives the places of two long texts; 0xc1 and a length takes the next piece of the
    second, or, with a negative length, of the first, in UTF-16 units. Extensions with one byte of content
    have an ordinary value after them. References: ``i`` numbers the value after it, ``p`` refers
    to the value of that number.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._records: dict[int, list[str]] = {}
        self._numbered: dict[bytes, Any] = {}
        self._bundle = [io.BytesIO(), io.BytesIO()]  # in UTF-16

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise ValueError("it is cut off")
        return self._data[start : self._at]

    def _number(self, power: int, signed: bool = False) -> int:
        return int.from_bytes(self._take(1 << power), signed=signed)

    def value(self) -> Any:
        token = self._take(1)[0]
        if token in self._records:
            return {name: self.value() for name in self._records[token]}
        if token < 0x80 or token >= 0xE0:
            return token if token < 0x80 else token - 256
        if token < 0x90 or token in (0xDE, 0xDF):
            size = token & 15 if token < 0x90 else self._number(token - 0xDD)
            return {self.value(): self.value() for _ in range(size)}
        if token < 0xA0 or token in (0xDC, 0xDD):
            return [self.value() for _ in range(token & 15 if token < 0xA0 else self._number(token - 0xDB))]
        if token < 0xC0 or 0xD9 <= token <= 0xDB:
            size = token & 31 if token < 0xC0 else self._number(token - 0xD9)
            return self._take(size).decode("utf-8", "replace")
        if token in (0xC4, 0xC5, 0xC6):
            return self._take(self._number(token - 0xC4))
        if 0xCC <= token <= 0xD3:
            return self._number(token & 3, signed=token >= 0xD0)
        if token in (0xCA, 0xCB):
            real = struct.unpack(">f" if token == 0xCA else ">d", self._take(4 << (token & 1)))[0]
            return int(real) if real.is_integer() else real  # large whole numbers of JavaScript
        if token == 0xC1:
            length = self.value()
            which, size = (1, 2 * length) if length > 0 else (0, -2 * length)
            return self._bundle[which].read(size).decode("utf-16-le", "replace")
        if 0xC7 <= token <= 0xC9 or 0xD4 <= token <= 0xD8:
            size = 1 << token - 0xD4 if token >= 0xD4 else self._number(token - 0xC7)
            return self._extension(chr(self._take(1)[0]), self._take(size))
        return {0xC2: False, 0xC3: True}.get(token)

    def _extension(self, kind: str, content: bytes) -> Any:
        if kind == "r":
            names = self._records[0x40 | content[0] & 0x3F] = [str(name) for name in self.value()]
            return {name: self.value() for name in names}
        if kind == "b":
            here, self._at = self._at, self._at - len(content) + int.from_bytes(content[:4])
            self._bundle = [io.BytesIO(str(self.value()).encode("utf-16-le")) for _ in range(2)]
            self._at = here
            return self.value()
        if kind == "i":
            self._numbered[content] = None  # a value that holds itself has a gap there
            self._numbered[content] = self.value()
        if kind in "ip":
            return self._numbered[content]
        if len(content) == 1:
            return None if kind == "\0" else self.value()
        if kind == "\xff":
            return None  # a date
        raise ValueError(f"it has an extension that is not known, {ord(kind)}")
