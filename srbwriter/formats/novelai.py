"""NovelAI stories, scenarios and lorebooks.

The text of a story is in *fragments* (until 2022) or in a *document* of paragraphs, packed by msgpackr into
base64. What was retried or undone is not read. Facts: NovelAI's scripting types,
and a story packed by the program in the tests of Aedial/novelai-api.
"""

from __future__ import annotations

import base64
from typing import Any, cast

from srbwriter.formats.draft import Fields, Grower, read_time
from srbwriter.formats.lore import add_lore
from srbwriter.formats.opening import Document, FormatError
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import Author, LoreEntry, as_list, as_object
from srbwriter.story.words import well_formed

_ENCODED = (
    "The text of this NovelAI story is in an encoded block that cannot be read here ({}); everything else was"
    " imported. Export the story as plain text in NovelAI and import that for the text."
)


def is_story(document: Document) -> bool:
    return "storyContainerVersion" in document.object


def read_story(document: Document) -> StoryDraft:
    whole = Fields(document.object)
    content, about = whole.inner("content"), whole.inner("metadata")
    packed, text = content.raw("document"), ""
    if packed is None and content.raw("story") is None:
        raise FormatError(document.name, "content", "a story, or a document")
    problem = "it is empty"
    if packed is not None:
        try:
            text = _document_text(packed, document)
        except Exception as error:  # msgpack's own errors have no class in common
            problem = str(error) or type(error).__name__
    story = content.inner("story")  # of older versions, as a whole or in fragments
    text = text or story.text("text") or "".join(each.text("data") for each in story.objects("fragments"))
    if packed is not None and not text:
        document.tell(_ENCODED.format(problem))
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
        words = "This scenario has places to fill in, such as ${name}; they stand in the text as they are"
        document.tell(words)
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
        budget = config.raw("tokenBudget")
        whole = type(budget) in (int, float) and 1 < budget < 2**31  # else a share of the context
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
                token_budget=int(budget) if whole else None,
                order=config.integer("budgetPriority") or 0,
            )
        )
    add_lore(draft, entries)


def _depth(config: Fields) -> int | None:
    """Return lines from the end; there -1 is the very end, and positions from 0 count from the top."""
    position = config.integer("insertionPosition")
    return -position - 1 if position is not None and position < 0 else None


# -- text ---------------------------------------------------------------------------------------------


def _document_text(packed: Any, document: Document) -> str:
    """Return the text of a document's paragraphs, which are sections."""
    value = _Unpacker(base64.b64decode("".join(packed.split()), validate=True)).value(0)
    sections = {_id(key): as_object(section).get("text") for key, section in value["sections"].items()}
    order = [key for key in map(_id, as_list(value["order"])) if key in sections]
    texts = [sections[key] for key in dict.fromkeys([*order, *sections])]
    if no_text := sum(not isinstance(text, str) for text in texts):
        document.tell(f"{no_text} of its parts are no text and were left out")
    return "\n".join(well_formed(text) for text in texts if isinstance(text, str))


def _id(value: Any) -> Any:
    """Return the id of a section: JavaScript packs large whole numbers as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Unpacker:
    """Reads what msgpackr, the JavaScript library, packs: MessagePack with its own additions.

    Records: extension ``r`` gives a list of names to a byte from 0x40 to 0x7f, and values follow. Bundled
    strings: extension ``b`` gives the places of two long texts; 0xc1 and a length takes the next piece of the
    second, or, with a negative length, of the first, in UTF-16 units. Extensions with one byte of content
    have an ordinary value after them. References: ``i`` numbers the value after it, ``p`` refers
    to the value of that number.
    """

    _DEEPEST = 200

    def __init__(self, data: bytes) -> None:
        import msgpack  # only files of one program need it

        library = cast(Any, msgpack)  # has no types
        self._data = data
        self._unpacker = library.Unpacker(
            raw=False,
            strict_map_key=False,
            unicode_errors="replace",
            timestamp=1,
            max_buffer_size=len(data) + 1,
        )
        self._unpacker.feed(data)
        self._records: dict[int, list[str]] = {}
        self._numbered: dict[bytes, Any] = {}
        self._bundle = (b"", b"")  # in UTF-16
        self._taken = [0, 0]

    def value(self, depth: int) -> Any:
        if depth > self._DEEPEST:
            raise ValueError(f"its values are nested more than {self._DEEPEST} deep")
        at = self._unpacker.tell()
        if at >= len(self._data):
            raise ValueError("it is cut off")
        token, kind, number = self._data[at : at + 3].ljust(3, b"\0")
        if 0x40 <= token < 0x80 and token in self._records:
            self._unpacker.read_bytes(1)
            return {name: self.value(depth + 1) for name in self._records[token]}
        if token == 0xC1:
            self._unpacker.read_bytes(1)
            return self._piece(self._unpacker.unpack())
        if token == 0xD4:
            self._unpacker.read_bytes(3)
            if kind == 0:
                return None
            if kind != ord("r"):
                return self.value(depth + 1)
            names = [str(name) for name in self.value(depth + 1)]
            self._records[0x40 | number & 0x3F] = names
            return {name: self.value(depth + 1) for name in names}
        if token in (0xC7, 0xC8, 0xC9, 0xD5, 0xD6, 0xD7, 0xD8):
            return self._extension(depth)
        if token in (0xDC, 0xDD) or 0x90 <= token < 0xA0:
            return [self.value(depth + 1) for _ in range(self._unpacker.read_array_header())]
        if token in (0xDE, 0xDF) or 0x80 <= token < 0x90:
            pairs = range(self._unpacker.read_map_header())
            return {self.value(depth + 1): self.value(depth + 1) for _ in pairs}
        return self._unpacker.unpack()

    def _piece(self, length: int) -> str:
        which, size = (1, 2 * length) if length > 0 else (0, -2 * length)
        start = self._taken[which]
        self._taken[which] = start + size
        return self._bundle[which][start : start + size].decode("utf-16-le", "replace")

    def _extension(self, depth: int) -> Any:
        found = self._unpacker.unpack()
        if isinstance(found, float | int):
            return found  # a date
        kind, content = cast(tuple[int, bytes], found)
        if kind == ord("b"):
            wide, end = self._text_at(self._unpacker.tell() - len(content) + int.from_bytes(content[:4]))
            self._bundle, self._taken = (wide, self._text_at(end)[0]), [0, 0]
            return self.value(depth)
        if kind == ord("i"):
            self._numbered[content] = None  # a value that holds itself has a gap there
            self._numbered[content] = self.value(depth)
        elif kind != ord("p"):
            raise ValueError(f"it has an extension that is not known, {kind}")
        return self._numbered[content]

    def _text_at(self, start: int) -> tuple[bytes, int]:
        """Return the text at a byte, in UTF-16, and its end."""
        token = self._data[start]
        size = {0xD9: 1, 0xDA: 2, 0xDB: 4}.get(token, 0)
        length = int.from_bytes(self._data[start + 1 : start + 1 + size]) if size else token & 0x1F
        begin = start + 1 + size
        text = self._data[begin : begin + length].decode("utf-8", "replace")
        return text.encode("utf-16-le"), begin + length
