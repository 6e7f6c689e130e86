"""Helpers that readers share: fields of unknown JSON, growing a draft of a story, ordering nodes, times.

A draft is a tree of plain values: see :class:`srbwriter.story.model.StoryDraft`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from srbwriter.story.model import DraftNode, JsonValue, StoryDraft, as_list, as_object

ROOT_ID = "root"
ISO_TIME = "%Y-%m-%dT%H:%M:%SZ"
LOOM_TIME = "%Y-%m-%d-%H.%M.%S"
_MILLISECONDS_FROM = 1e11  # Unix times above this are milliseconds: as seconds it would be the year 5138
_LAST_SECOND = 253_402_300_799  # of the year 9999


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

    def ident(self, key: str) -> str | None:
        """Return an id, which may be written as a text or a number."""
        value = self.raw(key)
        return str(value) if isinstance(value, str) or type(value) is int else None

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


def arrange(nodes: list[DraftNode], current_id: str) -> StoryDraft:
    """Make a tree of nodes that only name their parents; siblings keep the order of the file.

    Several top nodes get an empty root above them. A node whose parent is missing, or that is its own
    ancestor, moves to the top, and a notice says so.
    """
    by_id: dict[str, DraftNode] = {}
    for node in nodes:
        while not node.id or node.id in by_id:  # the second of one id
            node.id = f"{node.id or 'n'}-{len(by_id)}"
        by_id[node.id] = node
    notices: list[str] = []
    below: dict[str | None, list[DraftNode]] = {None: []}
    for node in nodes:
        if node.parent_id is not None and node.parent_id not in by_id:
            notices.append(f"{node.id}: its parent {node.parent_id!r} is not in the file; it is at the top")
            node.parent_id = None
        below.setdefault(node.parent_id, []).append(node)
    tops = below[None]
    ordered: dict[str, DraftNode] = {}
    for start in [*tops, *nodes]:
        if start.id not in ordered and start.parent_id is not None:  # no top leads to it
            notices.append(f"{start.id}: it is its own ancestor; it is at the top")
            below[start.parent_id].remove(start)
            tops.append(start)
            start.parent_id = None
        stack = [start] if start.id not in ordered else []
        while stack:
            here = stack.pop()
            ordered[here.id] = here
            stack += reversed(below.get(here.id, ()))
    for siblings in below.values():
        for place, node in enumerate(siblings):
            node.order = place
    whole = list(ordered.values())
    if len(tops) != 1:
        root = DraftNode(ROOT_ID + "_" * (ROOT_ID in by_id))
        whole.insert(0, root)
        for node in tops:
            node.parent_id = root.id
    leaf = tops[0] if tops else whole[0]
    while below.get(leaf.id):
        leaf = below[leaf.id][0]
    return StoryDraft(whole, current_id if current_id in by_id else leaf.id, notices=notices)


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
