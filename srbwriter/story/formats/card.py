"""Character cards, as JSON, in a PNG, or in a ``.charx`` archive: greetings become branches, the rest memory.

Facts: the card specifications V1 and V2 (malfoyslastname/character-card-spec-v2) and V3
(kwaroran/character-card-spec-v3); what SillyTavern says besides is under ``extensions``. In a PNG a card is
in a ``tEXt``, ``zTXt`` or ``iTXt`` chunk (PNG specification, 11.3.3).
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

from srbwriter.story.formats.base import Document, Format, FormatError
from srbwriter.story.formats.build import Grower, notice, read_time
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import PNG_SIGNATURE, parse_json
from srbwriter.story.formats.lore import read_book
from srbwriter.story.model import DraftNode, StoryDraft, as_list

NAME = "card"
GROUP_TAG = "group"
"""The tag of greetings that are meant for chats with several characters."""

MOST_CARD_BYTES = 64 * 2**20
"""The longest card that is unpacked from an archive."""

_ARCHIVED = "card.json"
_KEYWORDS = ("ccv3", "chara")  # the newer one first; a picture may hold both
_MEMORY_FIELDS = ("description", "personality", "scenario")
_FIRST_VERSION = {*_MEMORY_FIELDS, "first_mes", "mes_example"}
_NAME_MACRO = re.compile(r"\{\{char\}\}|<bot>|<char>", re.IGNORECASE)
_IDLE = {
    "mes_example": "example messages",
    "system_prompt": "system prompt",
    "post_history_instructions": "instructions after the history",
}

_Named = Callable[[str], str]


def matches(document: Document) -> bool:
    if document.kind == "png":
        return True
    if document.kind == "zip":
        return _ARCHIVED in document.names
    spec = document.object.get("spec")
    is_newer = isinstance(spec, str) and spec.startswith("chara_card")
    return is_newer or {"first_mes", "name"} <= document.keys or len(_FIRST_VERSION & document.keys) > 2


def read(document: Document) -> StoryDraft:
    notices: list[str] = []
    match document.kind:
        case "png":
            whole = _from_png(document, notices)
        case "zip":
            whole = _from_archive(document)
        case _:
            whole = top(document)
    draft = _draft(whole if whole.raw("spec") is None else whole.need_object("data"))
    for words in notices:
        notice(draft, words)
    return draft


def _draft(card: Cursor) -> StoryDraft:
    name = card.text("name")
    nickname = card.raw("nickname")
    named = _naming(nickname if isinstance(nickname, str) and nickname else name)
    grower = Grower()
    for text in [_first(card), *card.good_texts("alternate_greetings")]:
        if text:
            grower.add(grower.root, DraftNode("", text=named(text)))
    current = grower.nodes[1] if len(grower.nodes) > 1 else None
    for text in filter(None, card.good_texts("group_only_greetings")):
        grower.add(grower.root, DraftNode("", text=named(text))).mark(tags=(GROUP_TAG,))
    draft = grower.draft(current, name)
    _describe(draft, card, named)
    _add_book(draft, card, named)
    idle = [words for field, words in _IDLE.items() if card.raw(field)]
    if idle:
        notice(draft, f"Not used: the card's {', '.join(idle)}.")
    return draft


def _naming(name: str) -> _Named:
    """Puts the character's name where a text has a macro for it."""
    return lambda text: _NAME_MACRO.sub(lambda _: name, text) if name else text


def _first(card: Cursor) -> str:
    return "" if card.raw("first_mes") is None else card.good_text("first_mes")


def _describe(draft: StoryDraft, card: Cursor, named: _Named) -> None:
    root = draft.root
    draft.byline = card.text("creator")
    draft.created = read_time(card.raw("creation_date"))
    draft.modified = read_time(card.raw("modification_date"))
    parts = [named(card.text(field)) for field in _MEMORY_FIELDS]
    root.settings.memory = "\n\n".join(filter(None, parts)) or None
    tags = tuple(tag for tag in as_list(card.raw("tags")) if _is_tag(tag))
    root.mark(note=card.text("creator_notes"), tags=tags)
    depth_prompt = card.inner("extensions").inner("depth_prompt")
    if prompt := depth_prompt.text("prompt"):
        root.settings.author_note = named(prompt)
        root.settings.author_note_depth = depth_prompt.integer("depth")


def _is_tag(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def _add_book(draft: StoryDraft, card: Cursor, named: _Named) -> None:
    """The character's lorebook."""
    if card.raw("character_book") is None:
        return
    book = card.object("character_book")
    if book is None:
        card.add_notice("left out; expected an object", "character_book")
        return
    read_book(draft, book, "card")
    for entry in draft.root.settings.lore:
        entry.text = named(entry.text)


def _from_png(document: Document, notices: list[str]) -> Cursor:
    """The card in a PNG's text chunks; of two, the newer one that can be read."""
    texts = text_chunks(document, _KEYWORDS, notices)
    cards: dict[str, Cursor] = {}
    errors: dict[str, FormatError] = {}
    for keyword in _KEYWORDS:
        if keyword not in texts:
            continue
        try:
            place = f"text chunk {keyword}"
            value = parse_json(unwrapped(texts[keyword], document.name, place), document.name, place)
            cards[keyword] = Cursor(value, document.name, faults=document.faults)
        except FormatError as error:
            errors[keyword] = error
    if not cards:
        missing = FormatError(document.name, "the text chunks", "a character card; this picture holds none")
        raise next(iter(errors.values()), missing)
    for keyword, error in errors.items():
        reason = f"expected {error.expected}"
        notices.append(
            f"The picture holds two cards; {keyword} cannot be read ({reason}), but the other can."
        )
    return next(iter(cards.values()))


def _from_archive(document: Document) -> Cursor:
    """The card in a ``.charx`` archive, without the pictures and sounds beside it."""
    try:
        with zipfile.ZipFile(io.BytesIO(document.data)) as archive:
            if archive.getinfo(_ARCHIVED).file_size > MOST_CARD_BYTES:
                raise FormatError(document.name, _ARCHIVED, f"at most {MOST_CARD_BYTES} bytes")
            text = archive.read(_ARCHIVED).decode("utf-8")
    except (zipfile.BadZipFile, UnicodeDecodeError, RuntimeError, NotImplementedError) as error:
        raise FormatError(document.name, _ARCHIVED, f"a card that can be unpacked ({error})") from error
    value = parse_json(text, document.name, _ARCHIVED)
    return Cursor(value, document.name, faults=document.faults)


FORMAT = Format(NAME, "Character card (JSON, PNG or .charx)", ".json", matches, read)


MOST_TEXT_BYTES = 64 * 2**20
"""The longest text that is unpacked from a compressed chunk."""

_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def text_chunks(document: Document, wanted: Collection[str], notices: list[str]) -> dict[str, bytes]:
    """Return the text chunks with the given lower-case keywords.

    Raises :class:`FormatError` when the file is cut off before the first of them; later damage is a notice.
    """
    found: dict[str, bytes] = {}
    try:
        for kind, body in _chunks(document):
            for keyword, text in _texts(kind, body):
                if keyword.lower() in wanted:
                    found[keyword.lower()] = text
    except FormatError as error:
        if not found:
            raise
        notices.append(f"The picture is damaged at {error.place}; the card in it could be read.")
    return found


def unwrapped(text: bytes, file: str, place: str) -> str:
    """The JSON in a chunk: base64, of either alphabet and with or without line breaks, or as it is."""
    packed = b"".join(text.split())
    try:
        if packed.startswith(b"{"):
            return text.decode("utf-8")
        padded = packed.translate(_URL_SAFE).rstrip(b"=")
        return base64.b64decode(padded + b"=" * (-len(padded) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise FormatError(file, place, f"JSON in base64 ({error})") from error


def _chunks(document: Document) -> Iterator[tuple[bytes, bytes]]:
    data, offset = document.data, len(PNG_SIGNATURE)
    while offset < len(data):
        length, kind = int.from_bytes(data[offset : offset + 4]), data[offset + 4 : offset + 8]
        body = data[offset + 8 : offset + 8 + length]
        if len(kind) < 4 or len(body) < length:
            raise FormatError(document.name, f"byte {offset}", "a whole PNG chunk; the file is cut off")
        yield kind, body
        if kind == b"IEND":
            return
        offset += 12 + length  # length, kind, body, checksum


def _texts(kind: bytes, body: bytes) -> Iterator[tuple[str, bytes]]:
    """Keyword and text of a chunk; none for chunks of other kinds, and for texts that cannot be unpacked."""
    keyword, _, rest = body.partition(b"\0")
    text: bytes | None = None
    match kind:
        case b"tEXt":
            text = rest
        case b"zTXt" if rest.startswith(b"\0"):  # the one method of compression there is
            text = _inflated(rest[1:])
        case b"iTXt" if len(rest) > 2:
            # a flag for compression and its method, then language and translated keyword, each ended by zero
            _, _, after = rest[2:].partition(b"\0")
            _, _, after = after.partition(b"\0")
            text = _inflated(after) if rest[0] else after
        case _:
            pass
    if text is not None:
        yield keyword.decode("latin-1"), text


def _inflated(data: bytes) -> bytes | None:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, MOST_TEXT_BYTES)
    except zlib.error:
        return None
    return text if unpacker.eof else None
