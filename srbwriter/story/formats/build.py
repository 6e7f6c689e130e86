"""Helpers that importers share: growing a draft, ordering loose nodes, reading times.

It knows drafts and errors, and no single format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from srbwriter.story.draft import DraftNode, JsonObject, StoryDraft, as_list, as_object, keep_foreign
from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.formats.errors import FormatError

ROOT_ID = "root"

_MILLISECONDS_FROM = 1e11
"""Unix times above this are milliseconds (as seconds it would be the year 5138)."""

DEEPEST_META = 100
"""How deep fields that are kept without being understood may be nested."""

_LAST_SECOND = 253_402_300_799
"""The end of the year 9999."""

ISO_TIME = "%Y-%m-%dT%H:%M:%SZ"
PYLOOM_TIME = "%Y-%m-%d-%H.%M.%S"


class Grower:
    """Grows a tree node by node, parents first, giving out ids and sibling orders."""

    def __init__(self, text: str = "") -> None:
        self.root = DraftNode(ROOT_ID, text=text)
        self.nodes = [self.root]
        self._children: dict[str, int] = {}

    def add(self, parent: DraftNode, node: DraftNode) -> DraftNode:
        """Hang ``node`` below ``parent``, after its other children; an empty id is filled in."""
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

    Several top-level nodes get an empty root above them.  Raises :class:`FormatError` for a repeated
    id, a parent that is not there, and nodes that are their own ancestors.
    """
    items = list(loose)
    by_id: dict[str, Loose] = {}
    for item in items:
        if item.node.id in by_id:
            raise item.cursor.error(f"an id of its own; {item.node.id!r} occurs twice")
        by_id[item.node.id] = item
    children: dict[str | None, list[DraftNode]] = {}
    for item in items:
        parent_id = item.node.parent_id
        if parent_id is not None and parent_id not in by_id:
            raise item.cursor.error(f"a parent in the file; {parent_id!r} is not there")
        children.setdefault(parent_id, []).append(item.node)
    nodes = _parents_first(children)
    if len(nodes) < len(items):
        reached = {node.id for node in nodes}
        lost = next(item for item in items if item.node.id not in reached)
        raise lost.cursor.error(f"a way to the root; {lost.node.id!r} is its own ancestor")
    nodes = _below_one_root(nodes, children.get(None, []), by_id)
    return StoryDraft(nodes, current_id if current_id in by_id else first_leaf(nodes))


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


def _below_one_root(
    nodes: list[DraftNode], tops: list[DraftNode], taken: dict[str, Loose]
) -> list[DraftNode]:
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


def with_foreign(node: DraftNode, format_name: str, fields: JsonObject) -> DraftNode:
    keep_foreign(node.meta, format_name, fields)
    return node


def check_depth(meta: JsonObject, file: str, place: str) -> None:
    """Refuse kept fields nested so deeply that nobody could write them again."""
    level: list[Any] = list(meta.values())
    for _ in range(DEEPEST_META):
        level = [
            inner
            for value in level
            for inner in (as_object(value).values() if isinstance(value, dict) else as_list(value))
        ]
        if not level:
            return
    raise FormatError(file, place, f"fields nested at most {DEEPEST_META} deep")


def notice(draft: StoryDraft, words: str) -> None:
    """Something the writer should be told about this import; kept in ``meta["notices"]``."""
    draft.meta.setdefault("notices", []).append(words)
