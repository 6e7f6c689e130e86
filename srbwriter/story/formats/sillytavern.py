"""SillyTavern chats: one message per line; swipes become sibling branches.

The facts are from the program itself: how it saves chats and swipes, and reads and writes dates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from srbwriter.story.formats.base import Document, Format, FormatError
from srbwriter.story.formats.build import Grower, notice, read_time
from srbwriter.story.formats.cursor import Cursor, line_cursors
from srbwriter.story.model import (
    Author,
    DraftNode,
    Generation,
    JsonObject,
    StoryDraft,
    as_list,
    as_object,
)

NAME = "sillytavern"

BETWEEN = "\n\n"
"""What joins messages when a chat is read as prose."""

HIDDEN_TAG = "hidden"
"""The tag of messages that SillyTavern keeps out of the prompt."""

_UNUSED = "unused"
"""The placeholder for names in the header of a group's chat."""

_MOST_NAMES = 3
"""Speakers in the title of a chat that has none."""

_MONTHS: tuple[str, ...] = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SPOKEN = re.compile(r"\s*(\w+)\s(\d{1,2}),\s(\d{4})\s(\d{1,2}):(\d{2})\s?([ap])m\s*", re.IGNORECASE)
_STAMP = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})\s?@\s?(\d{1,2})h\s?(\d{1,2})m\s?(\d{1,2})s(?:\s?(\d{1,3})ms)?\s*"
)


def matches(document: Document) -> bool:
    if document.kind not in ("json", "jsonl"):
        return False
    keys = document.keys
    return "chat_metadata" in keys or {"user_name", "character_name"} <= keys or {"mes", "is_user"} <= keys


def read(document: Document) -> StoryDraft:
    cursors = line_cursors(document)
    head = cursors.pop(0) if cursors[0].raw("mes") is None and _is_head(cursors[0]) else None
    chat = _Chat()
    for cursor in cursors:
        try:
            chat.add(_message(cursor))
        except FormatError as error:
            cursor.leave_out(error)
    draft = chat.grower.draft(chat.end)
    if head is not None:
        _describe(draft, head)
    draft.title = draft.title or ", ".join(chat.characters[:_MOST_NAMES])
    draft.byline = draft.byline or chat.person
    if chat.hidden:
        words = "message stands" if chat.hidden == 1 else "messages stand"
        notice(draft, f"{chat.hidden} hidden {words} beside the story, with the tag {HIDDEN_TAG!r}.")
    return draft


def read_date(value: Any) -> float | None:
    """Unix seconds from a date as SillyTavern wrote it at one time or another; ``None`` if it is none.

    ``March 4, 2024 5:07am``, ``2024-3-4@05h07m09s``, ``2024-3-4 @05h 07m 09s 120ms``, ISO 8601, milliseconds.
    Dates without a zone are taken for UTC.
    """
    if not isinstance(value, str):
        return read_time(value)
    if value.strip().isdecimal():
        return read_time(int(value) / 1000)
    try:
        if spoken := _SPOKEN.fullmatch(value):
            name, day, year, hour, minute, half = spoken.groups()
            month = _MONTHS.index(name.lower()) + 1
            hours = int(hour) % 12 + (12 if half.lower() == "p" else 0)
            return datetime(int(year), month, int(day), hours, int(minute), tzinfo=UTC).timestamp()
        if stamp := _STAMP.fullmatch(value):
            year, month, day, hour, minute, second, thousandths = (int(part or 0) for part in stamp.groups())
            micros = thousandths * 1000
            return datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
    return read_time(value)


@dataclass(frozen=True, slots=True)
class _Take:
    """One text of a message: what was shown, or a swipe that was not."""

    text: str
    edited: bool = False
    created: float | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class _Message:
    takes: list[_Take]
    shown: int
    speaker: str
    is_user: bool
    is_hidden: bool


class _Chat:
    """The tree as it grows: the story's end, and the end of the hidden messages beside it."""

    def __init__(self) -> None:
        self.grower = Grower()
        self.end = self.grower.root
        self.hidden = 0
        self.person = ""
        self.characters: list[str] = []
        self._hidden_end: DraftNode | None = None

    def add(self, message: _Message) -> None:
        """Add all takes side by side.

        The story, or the chain of hidden messages, continues from the shown one.
        """
        if message.is_hidden:
            self.hidden += 1
            self._hidden_end = self._grow(self._hidden_end or self.end, message)
        else:
            self._hidden_end = None
            self.end = self._grow(self.end, message)
            self._remember(message)

    def _grow(self, here: DraftNode, message: _Message) -> DraftNode:
        join = BETWEEN if here is not self.grower.root else ""
        tags = [*([HIDDEN_TAG] if message.is_hidden else []), *_tags(message.speaker)]
        nodes = [self.grower.add(here, _node(take, message, join, tags)) for take in message.takes]
        return nodes[message.shown]

    def _remember(self, message: _Message) -> None:
        if message.is_user:
            self.person = self.person or message.speaker
        elif message.speaker and message.speaker not in self.characters:
            self.characters.append(message.speaker)


def _node(take: _Take, message: _Message, join: str, tags: list[str]) -> DraftNode:
    author: Author = "writer" if message.is_user else "edited" if take.edited else "model"
    node = DraftNode("", text=join + take.text, author=author, created=take.created)
    node.generation = Generation(model=take.model) if take.model else None
    node.mark(tags=tuple(tags))
    return node


def _tags(speaker: str) -> list[str]:
    """The speaker as a tag, which is one line without commas."""
    name = " ".join(re.split(r"[,\s]+", speaker)).strip()
    return [name] if name else []


def _is_head(cursor: Cursor) -> bool:
    return any(cursor.raw(key) is not None for key in ("chat_metadata", "user_name", "character_name"))


def _describe(draft: StoryDraft, head: Cursor) -> None:
    draft.title = _name(head, "character_name")
    draft.byline = _name(head, "user_name")
    draft.created = read_date(head.raw("create_date"))
    about = head.inner("chat_metadata")
    draft.root.settings.author_note = about.text("note_prompt") or None
    draft.root.settings.author_note_depth = about.integer("note_depth")


def _name(head: Cursor, key: str) -> str:
    return "" if head.raw(key) == _UNUSED else head.text(key)


def _message(cursor: Cursor) -> _Message:
    text = _plain(cursor.raw("mes"))
    if text is None:
        raise cursor.error("a text", "mes")
    takes, shown = _takes(cursor, text)
    speaker = cursor.raw("name")
    return _Message(
        takes,
        shown,
        speaker if isinstance(speaker, str) else "",
        cursor.flag("is_user"),
        cursor.flag("is_system"),
    )


def _plain(value: Any) -> str | None:
    """The text of a message or swipe; Chub puts it into an object."""
    text = as_object(value).get("message") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


def _takes(cursor: Cursor, text: str) -> tuple[list[_Take], int]:
    """All takes of a message, and which of them was shown: the message itself has the last word.

    A message that says something else than its swipe was edited; both are kept.
    """
    own = _Take(text, created=read_date(cursor.raw("send_date")), model=_model(cursor.all()))
    infos = as_list(cursor.raw("swipe_info"))
    takes: list[_Take] = []
    shown: int | None = None
    swipe_id = cursor.raw("swipe_id")
    for index, value in enumerate(as_list(cursor.raw("swipes"))):
        swipe = _plain(value)
        if swipe is None:
            cursor.add_notice("left out; expected a text", f"swipes[{index}]")
            continue
        if type(swipe_id) is int and swipe_id == index:
            shown = len(takes)
            takes.append(replace(own, edited=swipe != text))
            if swipe == text:
                continue
        info = as_object(infos[index]) if index < len(infos) else {}
        takes.append(_Take(swipe, created=read_date(info.get("send_date")), model=_model(info)))
    if shown is None:
        same = [index for index, take in enumerate(takes) if take.text == text]
        shown = same[0] if same else 0
        takes[shown : shown + len(same[:1])] = [own]
    return takes, shown


def _model(fields: JsonObject) -> str:
    model = as_object(fields.get("extra")).get("model")
    return model if isinstance(model, str) else ""


FORMAT = Format(NAME, "SillyTavern chat", ".jsonl", matches, read)
