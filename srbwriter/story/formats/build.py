"""Helpers that importers share: growing a draft, ordering loose nodes, reading times.

It knows drafts and errors, and no single format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from srbwriter.story.formats.base import Fault
from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.model import DraftNode, StoryDraft

ROOT_ID = "root"

_MILLISECONDS_FROM = 1e11
"""Unix times above this are milliseconds (as seconds it would be the year 5138)."""

_LAST_SECOND = 253_402_300_799
"""The end of the year 9999."""

MOST_TOLD = 20
"""Most faults of one file that are reported one by one."""

ISO_TIME = "%Y-%m-%dT%H:%M:%SZ"
PYLOOM_TIME = "%Y-%m-%d-%H.%M.%S"


class Grower:
    """Grows a tree node by node, parents first, giving out ids and sibling orders."""

    def __init__(self, text: str = "") -> None:
        self.root = DraftNode(ROOT_ID, text=text)
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


@dataclass(frozen=True, slots=True)
class Loose:
    """A node with the id of its parent, not yet in order, and where it was read."""

    node: DraftNode
    cursor: Cursor


def arrange(loose: Iterable[Loose], current_id: str | None = None) -> StoryDraft:
    """Order nodes that only point to their parents; siblings keep the order of the file.

    Several top-level nodes get an empty root above them.  A node with a duplicate id gets a new one; a node
    with a missing parent, or that is its own ancestor, moves to the top.  Both add a notice.
    """
    items = list(loose)
    ids = OwnIds()
    for item in items:
        ids.give(item.node, item.cursor)
    by_id = {item.node.id: item for item in items}
    for item in items:
        parent_id = item.node.parent_id
        if parent_id is not None and parent_id not in by_id:
            words = f"its parent {parent_id!r} is not in the file; it is put at the top"
            item.cursor.add_notice(words)
            item.node.parent_id = None
    _break_circles(by_id)
    children: dict[str | None, list[DraftNode]] = {}
    for item in items:
        children.setdefault(item.node.parent_id, []).append(item.node)
    nodes = _below_one_root(_parents_first(children), children.get(None, []), set(by_id))
    return StoryDraft(nodes, current_id if current_id in by_id else first_leaf(nodes))


class OwnIds:
    """Gives every node a unique id."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def give(self, node: DraftNode, cursor: Cursor) -> None:
        """Keep the node's id; fill in an empty one, and replace a duplicate with a notice."""
        wanted = node.id or f"n{len(self._taken)}"
        free, number = wanted, 2
        while free in self._taken:
            free, number = f"{wanted}-{number}", number + 1
        if node.id and free != node.id:
            cursor.add_notice(f"the id {node.id!r} occurs twice; here it becomes {free!r}")
        self._taken.add(free)
        node.id = free


def _break_circles(by_id: dict[str, Loose]) -> None:
    """Move one node of every cycle to the top."""
    place = {node_id: index for index, node_id in enumerate(by_id)}
    safe: set[str | None] = {None}
    for start in by_id:
        way: dict[str, None] = {}
        here: str | None = start
        while here not in safe and here not in way:
            assert here is not None
            way[here] = None
            here = by_id[here].node.parent_id
        if here in way:
            steps = list(way)
            first = by_id[min(steps[steps.index(here) :], key=place.__getitem__)]
            first.cursor.add_notice("it is its own ancestor; it is put at the top")
            first.node.parent_id = None
        safe.update(way)


def _parents_first(children: dict[str | None, list[DraftNode]]) -> list[DraftNode]:
    nodes: list[DraftNode] = []
    stack = list(reversed(children.get(None, [])))
    for siblings in children.values():
        for order, node in enumerate(siblings):
            node.order = order
    while stack:
        node = stack.pop()
        nodes.append(node)
        stack.extend(reversed(children.get(node.id, [])))
    return nodes


def _below_one_root(nodes: list[DraftNode], tops: list[DraftNode], taken: set[str]) -> list[DraftNode]:
    if len(tops) == 1:
        return nodes
    root_id = ROOT_ID
    while root_id in taken:
        root_id += "_"
    for node in tops:
        node.parent_id = root_id
    return [DraftNode(root_id), *nodes]


def first_leaf(nodes: list[DraftNode]) -> str:
    """The id at the end of the path that takes the first living child at every fork."""
    first_child: dict[str, DraftNode] = {}
    for node in reversed(nodes):
        if node.parent_id is not None and not node.marks.deleted:
            best = first_child.get(node.parent_id)
            if best is None or node.order <= best.order:
                first_child[node.parent_id] = node
    here = nodes[0]
    while here.id in first_child:
        here = first_child[here.id]
    return here.id


def read_time(value: Any) -> float | None:
    """Unix seconds from a number (seconds or milliseconds), ISO 8601 or pyloom's own stamp.

    ``None`` for anything else, and for moments that no calendar has.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if abs(value) > _MILLISECONDS_FROM else value
        return float(seconds) if 0 <= seconds <= _LAST_SECOND else None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        try:
            moment = datetime.strptime(value, PYLOOM_TIME)
        except ValueError:
            return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def write_time(seconds: float, form: str = ISO_TIME) -> str:
    """The moment in UTC, to the second; moments that no calendar has become the nearest one that it has."""
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST_SECOND), UTC).strftime(form)


def notice(draft: StoryDraft, words: str) -> None:
    """Add a notice for the writer about this import to ``meta["notices"]``."""
    draft.meta.setdefault("notices", []).append(words)


def notice_faults(draft: StoryDraft, faults: Sequence[Fault]) -> None:
    """Add the faults of a file as notices."""
    for fault in faults[:MOST_TOLD]:
        notice(draft, f"{fault.place}: {fault.words}")
    if len(faults) > MOST_TOLD:
        notice(draft, f"and {len(faults) - MOST_TOLD} more like these")
