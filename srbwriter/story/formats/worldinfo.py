"""Lorebooks without a story: SillyTavern world info, and the book of a card in a file of its own."""

from __future__ import annotations

from typing import Any

from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.lore import add_lore, each
from srbwriter.story.formats.worldentry import card_entry, tavern_entry
from srbwriter.story.model import JsonObject, StoryDraft, as_list, as_object, keep_foreign

NAME = "worldinfo"
BOOK_SPEC = "lorebook_v3"
"""What a lorebook file of the third card specification says in ``spec``; the book is under ``data``."""


def matches(document: Document) -> bool:
    entries = document.object.get("entries")
    if isinstance(entries, dict):
        return not entries or _any_has(list(as_object(entries).values()), {"key", "content"})
    return document.object.get("spec") == BOOK_SPEC or _is_book(document.object)


def _is_book(fields: JsonObject) -> bool:
    entries = as_list(fields.get("entries"))
    return any({"keys", "content"} <= as_object(entry).keys() for entry in entries)


def _any_has(members: list[Any], keys: set[str]) -> bool:
    return any(keys & as_object(member).keys() for member in members)


def read(document: Document) -> StoryDraft:
    whole = top(document)
    nested = document.object.get("spec") == BOOK_SPEC
    book = whole.need_object("data") if nested else whole
    draft = Grower().draft()
    read_book(draft, book, "world")
    draft.title = book.text("name")
    keep_foreign(draft.meta, NAME, {**whole.rest(), "data": book.rest()} if nested else whole.rest())
    return draft


def read_book(draft: StoryDraft, book: Cursor, prefix: str) -> None:
    """Add the entries of a book to the lore; those without an id are numbered after ``prefix``."""
    budget = book.peek("token_budget")
    if type(budget) is int and budget > 0:
        draft.root.settings.lore_budget = book.integer("token_budget")
    if isinstance(book.peek("entries"), dict):
        add_lore(draft, each(book, "entries", tavern_entry))
    else:
        add_lore(draft, each(book, "entries", lambda entry, place: card_entry(entry, f"{prefix}-{place}")))


FORMAT = Format(NAME, "SillyTavern world info, character lorebook", ".json", matches, read)
