"""Helpers that readers and writers share: growing a draft of a story, ordering loose nodes, times.

A draft is a tree of plain values: see :class:`srbwriter.story.model.StoryDraft`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any

from srbwriter.story.model import DraftNode, StoryDraft, children_by_parent

ROOT_ID = "root"
ISO_TIME = "%Y-%m-%dT%H:%M:%SZ"
LOOM_TIME = "%Y-%m-%d-%H.%M.%S"
_MILLISECONDS_FROM = 1e11  # Unix times above this are milliseconds: as seconds it would be the year 5138
_LAST_SECOND = 253_402_300_799  # of the year 9999


class Grower:
    """Grows a tree node by node, parents first, giving out ids and places among siblings."""

    def __init__(self) -> None:
        self.root = DraftNode(ROOT_ID)
        self.nodes = [self.root]
        self._children: dict[str, int] = {}

    def add(self, parent: DraftNode, node: DraftNode) -> DraftNode:
        """Add ``node`` below ``parent``, after its other children; an empty id is filled in."""
        node.id = node.id or f"n{len(self.nodes)}"
        node.parent_id = parent.id
        node.order = self._children.get(parent.id, 0)
        self._children[parent.id] = node.order + 1
        self.nodes.append(node)
        return node

    def draft(self, current: DraftNode | None = None, title: str = "") -> StoryDraft:
        return StoryDraft(self.nodes, (current or self.root).id, title=title)


def arrange(nodes: list[DraftNode], current_id: str | None = None) -> StoryDraft:
    """Make a tree of nodes that only name their parents; siblings keep the order of the file.

    Several top nodes get an empty root above them. A node with an id that is taken gets a new one; one whose
    parent is missing, or that is its own ancestor, moves to the top, and a notice says so.
    """
    notices: list[str] = []
    by_id: dict[str, DraftNode] = {}
    for node in nodes:
        wanted = node.id or f"n{len(by_id)}"
        names = chain([wanted], (f"{wanted}-{number}" for number in count(2)))
        node.id = next(name for name in names if name not in by_id)
        if node.id != wanted:
            notices.append(f"the id {wanted!r} occurs twice; here it becomes {node.id!r}")
        by_id[node.id] = node
    below: dict[str, list[DraftNode]] = {}
    tops: list[DraftNode] = []
    for node in nodes:
        siblings = tops
        if node.parent_id in by_id:
            siblings = below.setdefault(node.parent_id, [])
        elif node.parent_id is not None:
            notices.append(
                f"{node.id}: its parent {node.parent_id!r} is not in the file; it is put at the top"
            )
        node.order = len(siblings)
        siblings.append(node)
    ordered: dict[str, DraftNode] = {}
    for start in [*tops, *nodes]:  # what no top leads to is in a circle
        if start.id not in ordered and start.parent_id in by_id:
            notices.append(f"{start.id}: it is its own ancestor; it is put at the top")
            below[start.parent_id or ""].remove(start)
            tops.append(start)
        stack = [start] if start.id not in ordered else []
        while stack:
            here = stack.pop()
            ordered[here.id] = here
            stack.extend(reversed(below.get(here.id, ())))
    root = tops[0] if len(tops) == 1 else DraftNode(ROOT_ID + "_" * (ROOT_ID in by_id))
    for place, node in enumerate(tops):
        node.parent_id, node.order = (None if node is root else root.id), place
    whole = list(ordered.values())
    leaf = tops[0] if tops else root
    while below.get(leaf.id):
        leaf = below[leaf.id][0]
    current = current_id if current_id in by_id else leaf.id
    return StoryDraft(whole if len(tops) == 1 else [root, *whole], current, notices=notices)


def nested(draft: StoryDraft) -> Iterator[tuple[DraftNode | None, bool]]:
    """Yield each node in reading order, with whether it is a first child, and None where its children end."""
    children = children_by_parent(draft)
    stack: list[tuple[DraftNode | None, bool]] = [(draft.root, True)]
    while stack:
        node, first = stack.pop()
        yield node, first
        if node is not None:
            stack.append((None, False))
            stack += reversed([(child, not place) for place, child in enumerate(children[node.id])])


def read_time(value: Any) -> float | None:
    """Return Unix seconds of a number (seconds or milliseconds), ISO 8601 or loom's own stamp; else None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if abs(value) > _MILLISECONDS_FROM else value
        return float(seconds) if 0 <= seconds <= _LAST_SECOND else None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        try:
            moment = datetime.strptime(value, LOOM_TIME)
        except ValueError:
            return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def write_time(seconds: float, form: str = ISO_TIME) -> str:
    """Return the moment in UTC, to the second; one that no calendar has becomes the nearest that it has."""
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST_SECOND), UTC).strftime(form)
