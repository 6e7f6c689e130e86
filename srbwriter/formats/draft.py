"""Helpers that readers share: fields of unknown JSON, growing a draft of a story.

A draft is a :class:`srbwriter.story.draft.StoryDraft`, whose nodes are those of a story.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import ROOT, Author, JsonValue, NodeId, as_list, as_object
from srbwriter.story.node import Node
from srbwriter.story.tree import LONGEST


class Fields:
    """A JSON object of another program: a field of the wrong kind is as one that is missing."""

    def __init__(self, value: Any) -> None:
        self.all = as_object(value)

    def raw(self, key: str) -> Any:
        return self.all.get(key)

    def text(self, key: str) -> str:
        value = self.raw(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.raw(key)
        return value if isinstance(value, bool) else default

    def integer(self, key: str) -> int | None:
        value = self.raw(key)
        return value if type(value) is int and abs(value) < 2**53 else None

    def ident(self, key: str) -> str:
        """Return an id, which may be written as a text or a number; empty for none."""
        value = self.raw(key)
        return str(value) if isinstance(value, str) or type(value) is int else ""

    def texts(self, key: str) -> list[str]:
        return [each for each in as_list(self.raw(key)) if isinstance(each, str)]

    def tags(self) -> tuple[str, ...]:
        return tuple(tag for tag in self.texts("tags") if tag.strip() and "\n" not in tag)

    def inner(self, key: str) -> Fields:
        return Fields(self.raw(key))

    def members(self, key: str) -> list[tuple[str, Fields]]:
        """Return the objects of a list by their places, or of an object by their names."""
        value: JsonValue = self.raw(key)
        pairs = as_object(value).items() or enumerate(as_list(value))
        return [(str(name), Fields(each)) for name, each in pairs if isinstance(each, dict)]

    def objects(self, key: str) -> list[Fields]:
        return [each for _, each in self.members(key)]


class Grower:
    """Grows a tree node by node, parents first, giving out numbers and places among siblings."""

    def __init__(self) -> None:
        self.root = Node(ROOT, None)
        self.nodes = {ROOT: self.root}
        self._children: dict[NodeId, int] = {}

    def add(self, parent: Node, text: str, author: Author = "imported", **fields: Any) -> Node:
        """Add a text below ``parent``, after its other children, and return its node; ``fields`` are its own.

        A long text by a person becomes a chain of nodes, so that a key writes little; its last is returned.
        """
        first, *others = [text] if author == "model" else cut_long(text)
        place = self._children.get(parent.id, 0)
        self._children[parent.id] = place + 1
        node = Node(len(self.nodes) + 1, parent.id, place, author=author, text=first, **fields)
        self.nodes[node.id] = node
        for other in others:
            node = self.add(node, other, author)
        return node

    def draft(self, current: Node | None = None, title: str = "") -> StoryDraft:
        return StoryDraft(self.nodes, (current or self.root).id, title=title)


def cut_long(text: str) -> Iterator[str]:
    """Yield a long text in parts, cut at ends of paragraphs."""
    at = 0
    while len(text) - at > LONGEST:
        end = text.rfind("\n", at + LONGEST // 2, at + LONGEST) + 1
        end = end or text.rfind(" ", at + LONGEST // 2, at + LONGEST) + 1 or at + LONGEST
        yield text[at:end]
        at = end
    yield text[at:]
