"""A node of an open story, and its row in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from srbwriter.story.model import Author, JsonObject, JsonValue, Marks, NodeId, State
from srbwriter.story.spans import Spans, decode
from srbwriter.story.words import Count, count


class Recipe(NamedTuple):
    """The model that wrote a text, and its sampling parameters; ``number`` 0 is none."""

    number: int = 0
    model: str = ""
    sampling: Mapping[str, JsonValue] = {}


NO_RECIPE = Recipe()


@dataclass(slots=True, eq=False)
class Node:
    """A part of a story. Only the verbs of :class:`~srbwriter.story.story.Story` change it.

    ``runs`` are the encoded spans of the text; None for plain text by ``author``. ``labels`` are tags, a line
    each. ``own_settings`` and ``extra`` are JSON. ``name`` is the node's id in the file that it was imported
    from. ``streaming`` is set while a model writes at its end. Times are Unix seconds, UTC.
    """

    id: NodeId
    parent: NodeId | None
    place: int = 0
    state: int = State.LIVING
    author: Author = "writer"
    text: str = ""
    runs: bytes | None = None
    recipe: Recipe = NO_RECIPE
    seed: int | None = None
    finish_reason: str = ""
    bookmark: bool = False
    visited: bool = True
    title: str = ""
    note: str = ""
    labels: str = ""
    own_settings: str | None = None
    extra: str | None = None
    name: str | None = None
    created: float = 0.0
    streaming: bool = False
    counted: tuple[int, int] | None = None

    @property
    def spans(self) -> Spans:
        """The text as runs of one origin, with their tokens."""
        return decode(self.runs, self.text, self.author)

    @property
    def marks(self) -> Marks:
        deleted = self.state != State.LIVING
        return Marks(
            self.bookmark, self.tags, self.note, title=self.title, visited=self.visited, deleted=deleted
        )

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.labels.split("\n")) if self.labels else ()

    @property
    def model(self) -> str:
        return self.recipe.model

    @property
    def sampling(self) -> Mapping[str, JsonValue]:
        return self.recipe.sampling

    @property
    def meta(self) -> JsonObject:
        return json.loads(self.extra) if self.extra else {}

    @property
    def count(self) -> tuple[int, int]:
        """The words of the text and the state at its edges, as :meth:`~.words.Count.total` adds them up."""
        if self.counted is None:
            found: Count = count(self.text)
            self.counted = found.words, found.edges
        return self.counted

    # -- its row -----------------------------------------------------------------------------------

    def row(self) -> tuple[Any, ...]:
        """Return the values of :data:`COLUMNS`, without the checksum."""
        flags = self.bookmark | self.visited << 1
        seed = self.seed if self.seed is None or self.seed < 2**63 else self.seed - 2**64  # SQLite is signed
        return (
            self.id, self.parent, self.place, int(self.state), self.author, self.text, self.runs,
            self.recipe.number, seed, self.finish_reason, flags, self.title, self.note, self.labels,
            self.own_settings, self.extra, self.name, self.created,
        )  # fmt: skip


COLUMNS = (
    "id, parent, place, state, author, text, runs, recipe, seed, finish, flags, title, note, tags, settings,"
    " meta, name, created, sum"
)


def row_sum(row: tuple[Any, ...]) -> int:
    """Return the checksum of the text and the tokens of a row."""
    return crc32(row[6] or b"", crc32(row[5].encode(), row[0]))


def node_of(row: tuple[Any, ...], recipes: Mapping[int, Recipe]) -> Node:
    """Return the node of a row, which may have a checksum at its end."""
    (
        number, parent, place, state, author, text, runs, recipe, seed, finish, flags, title, note, labels,
        settings, extra, name, created,
    ) = row[:18]  # fmt: skip
    seed = seed % 2**64 if seed is not None else None
    return Node(
        number, parent, place, state, author, text, runs, recipes.get(recipe, NO_RECIPE), seed, finish,
        bool(flags & 1), bool(flags & 2), title, note, labels, settings, extra, name, created,
    )  # fmt: skip
