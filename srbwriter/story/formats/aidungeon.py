"""AI Dungeon: story cards and the world info they came from, adventures and scenarios.

The program itself exports only story cards (help.aidungeon.com, "Story Cards Import and Export"); adventures
and scenarios are saved by the tools of players, all in the fields of the program's own interface: the user
script "Adventure + Scenario Exporter", AIDCAT, and others.
"""

from __future__ import annotations

from typing import Any

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Grower, read_time
from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.formats.lore import add_lore, each, keys_of, notice_placeholders
from srbwriter.story.model import (
    Author,
    DraftNode,
    LoreEntry,
    StoryDraft,
    as_list,
    as_object,
)

NAME = "aidungeon"
CARDS_NAME = "aidungeon-cards"

UNDONE_TAG = "undone"
"""The tag of actions that were taken back."""

_ACTIONS = ("actions", "actionWindow")
_CARDS = ("storyCards", "worldInfo")
_WRAPS = ("adventure", "adventureState", "scenario")
_FROM_MODEL = frozenset(("continue", "repeat"))
"""Kinds of actions whose text the model wrote; all others are the player's."""


def matches_cards(document: Document) -> bool:
    return document.kind == "json" and any(map(_is_card, as_list(document.value)))


def _is_card(value: Any) -> bool:
    fields = as_object(value)
    return "keys" in fields and bool({"value", "entry"} & fields.keys())


def matches_adventure(document: Document) -> bool:
    if document.kind != "json":
        return False
    value: Any = document.value
    return any(map(_is_adventure, as_list(value) or [_unwrapped(value)]))


def _is_adventure(value: Any) -> bool:
    fields = as_object(value)
    has_cards = any(isinstance(fields.get(key), list) for key in _CARDS)
    if any(_is_action(action) for key in _ACTIONS for action in as_list(fields.get(key))):
        return has_cards or bool({"memory", "authorsNote", "publicId", "shortId"} & fields.keys())
    return has_cards and bool({"prompt", "publicId", "shortId"} & fields.keys())


def _is_action(value: Any) -> bool:
    return {"text", "type"} <= as_object(value).keys()


def _unwrapped(value: Any) -> Any:
    """Return the adventure or scenario in a response of the program's interface, or the value itself."""
    data = as_object(as_object(value).get("data"))
    return next((data[key] for key in _WRAPS if isinstance(data.get(key), dict)), value)


def _listed(document: Document, key: str) -> Cursor:
    """A file that is a list, as if the list were a field."""
    return Cursor({key: document.value}, document.name, faults=document.faults)


def read_cards(document: Document) -> StoryDraft:
    draft = Grower().draft()
    add_lore(draft, each(_listed(document, "cards"), "cards", _card))
    return draft


def read_adventure(document: Document) -> StoryDraft:
    """One adventure is the story; of several, each is a branch with its own memory, note and lorebook."""
    grower = Grower()
    draft = grower.draft()
    if as_list(document.value):
        for adventure in _listed(document, "adventures").good_objects("adventures"):
            top = grower.add(grower.root, DraftNode(""))
            top.mark(title=_one_line(adventure.text("title")))
            end = _grow(draft, grower, top, adventure)
            draft.current_id = end.id if draft.current_id == grower.root.id else draft.current_id
    else:
        adventure = Cursor(_unwrapped(document.value), document.name, faults=document.faults)
        draft.title = adventure.text("title")
        draft.created = read_time(adventure.raw("createdAt"))
        grower.root.mark(note=adventure.text("description"))
        draft.current_id = _grow(draft, grower, grower.root, adventure).id
    notice_placeholders(draft)
    return draft


def _grow(draft: StoryDraft, grower: Grower, top: DraftNode, adventure: Cursor) -> DraftNode:
    """Everything of an adventure or scenario below ``top``; returns the end of its story."""
    _settle(draft, top, adventure)
    here = top
    if prompt := adventure.text("prompt"):
        here = grower.add(top, DraftNode("", text=prompt, author="writer"))
    for option in adventure.good_objects("options"):
        start = grower.add(top, DraftNode("", text=option.text("prompt"), author="writer"))
        start.mark(title=_one_line(option.text("title")))
        _settle(draft, start, option)
    actions = [node for key in _ACTIONS for node in each(adventure, key, _action)]
    if len(actions) > 1 and (actions[0].created or 0) > (actions[-1].created or 0):
        actions.reverse()  # the newest come first, as the program's API can return them
    way = [here]
    for node in actions:
        grower.add(here, node)
        if not node.marks.deleted and UNDONE_TAG not in node.marks.tags:
            here = node
            way.append(node)
    for node in each(adventure, "undoneWindow", _action):
        node.mark(tags=(UNDONE_TAG,))
        grower.add(_before(way, node), node)
    return here


def _before(way: list[DraftNode], node: DraftNode) -> DraftNode:
    """The action that an undone one followed, as far as the times tell."""
    earlier = [step for step in way if step.created is not None and step.created <= (node.created or 0)]
    return earlier[-1] if earlier else way[0]


def _settle(draft: StoryDraft, node: DraftNode, above: Cursor) -> None:
    """Memory, author's note and cards."""
    node.settings.memory = above.text("memory") or None
    node.settings.author_note = above.text("authorsNote") or None
    for key in _CARDS:
        add_lore(draft, each(above, key, _card), node)


def _action(cursor: Cursor, _: str) -> DraftNode:
    kind = cursor.text("type")
    author: Author = "model" if kind in _FROM_MODEL else "writer"
    node = DraftNode(
        "", text=cursor.need_text("text"), author=author, created=read_time(cursor.raw("createdAt"))
    )
    undone = cursor.raw("undoneAt") is not None
    node.mark(deleted=cursor.raw("deletedAt") is not None, tags=(UNDONE_TAG,) if undone else ())
    return node


def _card(cursor: Cursor, index: str) -> LoreEntry:
    """Read a story card, or an entry of world info; the note for its author replaces an empty text."""
    text = cursor.need_text("entry" if "entry" in cursor.all() else "value")
    description = cursor.raw("description")
    return LoreEntry(
        id=cursor.ident("id") or f"card-{index}",
        name=cursor.text("title") or cursor.text("name"),
        text=text or (description if isinstance(description, str) else ""),
        keys=keys_of(cursor, "keys"),
        enabled=cursor.raw("deletedAt") is None,
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


CARDS = Format(CARDS_NAME, "AI Dungeon story cards, world info", ".json", matches_cards, read_cards)
ADVENTURE = Format(NAME, "AI Dungeon adventure or scenario", ".json", matches_adventure, read_adventure)
