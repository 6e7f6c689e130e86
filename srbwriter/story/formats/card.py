"""SillyTavern character cards, as JSON or inside a PNG: greetings become branches, the rest memory."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from srbwriter.story.draft import DraftNode, StoryDraft, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import PNG_SIGNATURE, Document, parse_json
from srbwriter.story.formats.errors import FormatError
from srbwriter.story.formats.worldentry import card_entry

NAME = "card"

_KEYWORDS = (b"ccv3", b"chara")  # the newer one first; a card may hold both
_MEMORY_FIELDS = ("description", "personality", "scenario")
_NAME_MACRO = "{{char}}"


def matches(document: Document) -> bool:
    if document.kind == "png":
        return True
    spec = document.object.get("spec")
    return (isinstance(spec, str) and spec.startswith("chara_card")) or {"first_mes", "name"} <= document.keys


def read(document: Document) -> StoryDraft:
    in_picture = document.kind == "png"
    whole = Cursor(_from_png(document), document.name) if in_picture else top(document)
    card = whole.need_object("data") if whole.peek("spec") is not None else whole
    name = card.need_text("name")
    grower = Grower()
    greetings = [card.need_text("first_mes"), *card.texts("alternate_greetings")]
    nodes = [grower.add(grower.root, DraftNode("", text=_named(text, name))) for text in greetings if text]
    draft = grower.draft(nodes[0] if nodes else None, name)
    draft.byline = card.text("creator")
    parts = [_named(card.text(field), name) for field in _MEMORY_FIELDS]
    draft.root.settings.memory = "\n\n".join(filter(None, parts)) or None
    if book := card.object("character_book"):
        draft.root.settings.lore = [
            card_entry(cursor, f"card-{index}") for index, cursor in enumerate(book.objects("entries"))
        ]
    keep_foreign(draft.meta, NAME, card.rest())
    return draft


def _named(text: str, name: str) -> str:
    return text.replace(_NAME_MACRO, name)


def _from_png(document: Document) -> object:
    """The JSON in a PNG's text chunks."""
    texts = dict(_text_chunks(document))
    for keyword in _KEYWORDS:
        if keyword not in texts:
            continue
        place = f"text chunk {keyword.decode()}"
        try:
            decoded = base64.b64decode(texts[keyword], validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise FormatError(document.name, place, f"JSON in base64 ({error})") from error
        return parse_json(decoded, document.name, place)
    raise FormatError(document.name, "the text chunks", "a character card; this picture holds none")


def _text_chunks(document: Document) -> Iterator[tuple[bytes, bytes]]:
    """Keyword and text of each ``tEXt`` chunk (PNG specification, 11.3.3.2)."""
    data, offset = document.data, len(PNG_SIGNATURE)
    while offset < len(data):
        length, kind = int.from_bytes(data[offset : offset + 4]), data[offset + 4 : offset + 8]
        body = data[offset + 8 : offset + 8 + length]
        if len(kind) < 4 or len(body) < length:
            raise FormatError(document.name, f"byte {offset}", "a whole PNG chunk; the file is cut off")
        if kind == b"tEXt" and b"\0" in body:
            keyword, text = body.split(b"\0", 1)
            yield keyword.lower(), text
        if kind == b"IEND":
            return
        offset += 12 + length  # length, kind, body, checksum


FORMAT = Format(NAME, "Character card (JSON or PNG)", ".json", matches, read)
