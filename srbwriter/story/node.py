"""A node of a story, in memory, in a draft and as a row of the file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from srbwriter.story.model import (
    Author,
    JsonObject,
    JsonValue,
    NodeId,
    State,
    StorySettings,
    settings_from,
    settings_json,
)
from srbwriter.story.spans import Spans, decode, encode, text_of
from srbwriter.story.words import Count, count


class Node(Struct, array_like=True, dict=True):
    """A part of a story. Only the verbs of :class:`~srbwriter.story.story.Story` change it.

    ``runs`` are the encoded spans of the text; None for plain text by ``author``. ``model`` and ``sampling``
    say what wrote it. ``own_settings`` are those that were set here. ``streaming`` is the vocabulary of a
    model that writes at its end. Times are Unix seconds, UTC. A row of the file has the fields in this order.
    """

    id: NodeId
    parent: NodeId | None
    place: int = 0
    state: State = State.LIVING
    author: Author = "writer"
    text: str = ""
    runs: bytes | None = None
    model: str = ""
    sampling: Mapping[str, JsonValue] = {}
    seed: int | None = None
    finish_reason: str = ""
    bookmark: bool = False
    visited: bool = True
    title: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()
    own_settings: JsonObject | None = None
    meta: JsonObject = {}
    created: float = 0.0
    streaming: str | None = None

    @property
    def spans(self) -> Spans:
        """The text as runs of one origin, with their tokens."""
        return decode(self.runs, self.text, self.author)

    @spans.setter
    def spans(self, spans: Spans) -> None:
        self.text, self.runs = text_of(spans), encode(spans, self.author)

    @property
    def settings(self) -> StorySettings:
        """A copy of the settings that were set here."""
        return settings_from(self.own_settings)

    @settings.setter
    def settings(self, settings: StorySettings) -> None:
        self.own_settings = settings_json(settings)

    @cached_property
    def count(self) -> Count:
        """The words of the text and the state at its edges, as :meth:`~.words.Count.total` adds them up."""
        return count(self.text)
