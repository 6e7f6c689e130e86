"""A node of a story, in memory, in a draft and as a row of the file."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from sys import intern
from typing import Any

import msgspec

from srbwriter.story.model import (
    Author,
    JsonObject,
    JsonValue,
    NodeId,
    StorySettings,
    as_list,
    settings_from,
    settings_json,
)
from srbwriter.story.spans import Spans, decode, encode, text_of
from srbwriter.story.words import Count, count


@dataclass(slots=True)
class Node:
    """A part of a story. Only the verbs of :class:`~srbwriter.story.story.Story` change it.

    ``runs`` are the encoded spans of the text; None for plain text by ``author``. ``model`` and ``sampling``
    say what wrote it. ``labels`` are tags, a line each. ``own_settings`` are those that were set here.
    ``streaming`` is the vocabulary of a model that writes at its end. Times are Unix seconds, UTC.
    """

    id: NodeId
    parent: NodeId | None
    place: int = 0
    state: int = 0
    author: Author = "writer"
    text: str = ""
    runs: bytes | None = None
    model: str = ""
    sampling: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    seed: int | None = None
    finish_reason: str = ""
    bookmark: bool = False
    visited: bool = True
    title: str = ""
    note: str = ""
    labels: str = ""
    own_settings: JsonObject | None = None
    meta: JsonObject = field(default_factory=dict[str, JsonValue])
    created: float = 0.0
    streaming: str | None = None
    counted: Count | None = field(default=None, compare=False)

    @property
    def spans(self) -> Spans:
        """The text as runs of one origin, with their tokens."""
        return decode(self.runs, self.text, self.author)

    @spans.setter
    def spans(self, spans: Spans) -> None:
        self.text, self.runs = text_of(spans), encode(spans, self.author)

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.labels.split("\n")) if self.labels else ()

    @tags.setter
    def tags(self, tags: Iterable[str]) -> None:
        self.labels = "\n".join(tags)

    @property
    def settings(self) -> StorySettings:
        """A copy of the settings that were set here."""
        return settings_from(self.own_settings)

    @settings.setter
    def settings(self, settings: StorySettings) -> None:
        self.own_settings = settings_json(settings)

    @property
    def count(self) -> Count:
        """The words of the text and the state at its edges, as :meth:`~.words.Count.total` adds them up."""
        if self.counted is None:
            self.counted = count(self.text)
        return self.counted


_FIELDS = tuple(Node.__dataclass_fields__)[:-2]
_RUNS, *_ALIKE = map(_FIELDS.index, ("runs", "author", "model"))
_values = attrgetter(*_FIELDS)


def row_of(node: Node) -> list[Any]:
    """Return the fields of a node in the order of the class; bytes become text as :func:`packed` does."""
    return list(_values(node))


def node_of(row: list[Any]) -> Node:
    """The inverse of :func:`row_of`."""
    row[_RUNS] = unpacked(row[_RUNS])
    for place in _ALIKE:  # in every other row too: one string for all
        row[place] = intern(row[place])
    return Node(*row)


def fits(row: Any) -> bool:
    """Whether a row whose checksum is wrong is a node's all the same: the values are of the right types."""
    try:
        msgspec.convert(dict(zip(_FIELDS, as_list(row), strict=True)), Node)
    except ValueError:
        return False
    return True


def packed(runs: bytes) -> str:
    """Return bytes in base64."""
    return b2a_base64(runs, newline=False).decode()


def unpacked(runs: str | None) -> bytes | None:
    return None if runs is None else a2b_base64(runs)
