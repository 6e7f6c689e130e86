"""Lorebooks and character cards: entries as Kobold, SillyTavern and cards write them.

Facts: the card specifications V1 and V2 (malfoyslastname/character-card-spec-v2) and V3
(kwaroran/character-card-spec-v3), and SillyTavern. In a PNG a card is in a ``tEXt`` or ``iTXt`` chunk
(PNG specification, 11.3.3).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator

from srbwriter.formats.draft import Fields, Grower
from srbwriter.formats.opening import PNG, Document, FormatError, parse_json
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import ROOT, LoreEntry, as_list, as_object

_AT_DEPTH = 4  # SillyTavern's position for "at depth", and its depth for an entry that gives none
_MEMORY = ("description", "personality", "scenario")
_SLASH = re.compile(r"(?<!\\)/")
_MACRO = re.compile(r"\{\{char\}\}|<bot>|<char>", re.IGNORECASE)


def add_lore(draft: StoryDraft, entries: Iterable[LoreEntry]) -> None:
    """Add entries to the story, each with an id of its own."""
    settings = draft.root.settings
    lore = {entry.id: entry for entry in settings.lore}
    for entry in entries:
        while entry.id in lore:
            entry.id = f"{entry.id} ({len(lore) + 1})"
        lore[entry.id] = entry
    settings.lore = list(lore.values())
    draft.root.settings = settings


def read_entry(entry: Fields, place: str) -> LoreEntry:
    """Return an entry of a card's book, of world info of SillyTavern or Kobold, of NovelAI or mikupad."""
    of_card = entry.raw("keys") is not None
    case_sensitive = entry.flag("case_sensitive") or entry.flag("caseSensitive")
    keys = [key.strip() for key in entry.texts("keys") or entry.texts("key") if key.strip()]
    if (listed := entry.text("keys") or entry.text("key")).strip():  # an expression may hold commas
        keys = [listed] if listed.startswith("/") else [k.strip() for k in listed.split(",") if k.strip()]
    if entry.flag("use_regex"):
        flags = "" if case_sensitive else "i"
        keys = [key if key.startswith("/") else "/" + _SLASH.sub(r"\/", key) + f"/{flags}" for key in keys]
    added = entry.inner("extensions") if of_card else entry
    depth = added.integer("depth")
    return LoreEntry(
        id=entry.ident("id") or entry.ident("uid") or place,
        name=entry.text("name") or entry.text("comment") or entry.text("displayName"),
        text=entry.text("content") or entry.text("text"),
        keys=keys,
        enabled=entry.flag("enabled", not (entry.flag("disable") or entry.flag("widisabled"))),
        constant=entry.flag("constant") or entry.flag("forceActivation"),
        case_sensitive=case_sensitive or added.flag("case_sensitive"),
        whole_words=added.flag("match_whole_words") or added.flag("matchWholeWords"),
        depth=None if added.integer("position") != _AT_DEPTH else _AT_DEPTH if depth is None else depth,
        scan_depth=entry.integer("searchRange"),
        order=entry.integer("insertion_order") or entry.integer("order") or 0,
    )


def _add_book(draft: StoryDraft, book: Fields, named: Callable[[str], str] = str) -> None:
    budget = book.integer("token_budget")
    settings = draft.root.settings
    settings.lore_budget = budget if budget and budget > 0 else None
    draft.root.settings = settings
    entries = [read_entry(entry, place) for place, entry in book.members("entries")]
    for entry in entries:
        entry.text = named(entry.text)
    add_lore(draft, entries)


def is_world_info(document: Document) -> bool:
    entries = document.object.get("entries")
    members = list(as_object(entries).values()) or as_list(entries)
    known = any("content" in as_object(each) and {"key", "keys"} & set(as_object(each)) for each in members)
    return known or entries == {} or document.object.get("spec") == "lorebook_v3"


def read_world_info(document: Document) -> StoryDraft:
    """SillyTavern's world info, or the book of a card in a file of its own."""
    whole = Fields(document.object)
    book = whole.inner("data") if whole.raw("spec") == "lorebook_v3" else whole
    draft = Grower().draft(title=book.text("name"))
    _add_book(draft, book)
    return draft


# -- character cards ----------------------------------------------------------------------------------


def is_card(document: Document) -> bool:
    if document.kind in ("png", "zip"):
        return document.kind == "png" or "card.json" in document.names
    keys = set(document.object)
    newer = str(document.object.get("spec")).startswith("chara_card")
    return newer or {"first_mes", "name"} <= keys or len({*_MEMORY, "first_mes", "mes_example"} & keys) > 2


def read_card(document: Document) -> StoryDraft:
    """Greetings become branches; what the card says of its character becomes the memory."""
    if document.kind == "png":
        whole = _from_png(document)
    elif document.kind == "zip":
        text = document.part("card.json").decode("utf-8", "replace")
        whole = Fields(parse_json(text, document.name, "card.json"))
    else:
        whole = Fields(document.object)
    card = whole if whole.raw("spec") is None else whole.inner("data")
    if not set(card.all) & {"name", "first_mes", *_MEMORY}:
        raise FormatError(document.name, "the card", "a character with a name or a greeting")
    name = card.text("nickname") or card.text("name")

    def named(text: str) -> str:
        return _MACRO.sub(lambda _: name, text) if name else text

    grower = Grower()
    more = [*card.texts("alternate_greetings"), *card.texts("group_only_greetings")]
    for text in filter(None, [card.text("first_mes"), *more]):
        grower.add(grower.root, named(text))
    draft = grower.draft(grower.nodes.get(ROOT + 1), card.text("name"))
    draft.byline = card.text("creator")
    settings = draft.root.settings
    settings.memory = "\n\n".join(filter(None, (named(card.text(field)) for field in _MEMORY))) or None
    draft.root.note, draft.root.tags = card.text("creator_notes"), card.tags()
    depth_prompt = card.inner("extensions").inner("depth_prompt")
    if prompt := depth_prompt.text("prompt"):
        settings.author_note, settings.author_note_depth = named(prompt), depth_prompt.integer("depth")
    draft.root.settings = settings
    _add_book(draft, card.inner("character_book"), named)
    return draft


def _from_png(document: Document) -> Fields:
    """Return the card in a picture's text chunks: the newer one of two."""
    texts = dict(_png_texts(document.data))
    packed = texts.get("ccv3") or texts.get("chara")
    if packed is None:
        raise FormatError(document.name, "the text chunks", "a character card; this picture holds none")
    if not packed.startswith(b"{"):
        packed = base64.b64decode(packed.translate(bytes.maketrans(b"-_", b"+/")) + b"==")
    return Fields(parse_json(packed.decode(), document.name, "the text chunk"))


def _png_texts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield keyword and text of each text chunk."""
    at = len(PNG)
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        keyword, _, text = data[at + 8 : at + 8 + length].partition(b"\0")
        if kind == b"iTXt":  # a flag and the method, then language and translated keyword, each ended by zero
            text = text[2:].partition(b"\0")[2].partition(b"\0")[2]
        if kind in (b"tEXt", b"iTXt"):
            yield keyword.decode("latin-1").lower(), text
        at += 12 + length  # length, kind, body, checksum
