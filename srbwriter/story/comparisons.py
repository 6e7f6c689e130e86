"""The writer's picks in a story as comparisons: which branches they picked, and which they left.

A pick is an action that is done and not undone. Stories from other programs, and exports, have no actions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

from srbwriter.story.document import Document
from srbwriter.story.model import NodeId
from srbwriter.story.tree import Entry

_CHUNK = 1000  # rows read at a time, so that nobody waits long for the lock


class Candidate(NamedTuple):
    """A branch that could be picked.

    ``recipe`` is the number of its model and sampling parameters; ``meta`` is JSON, what else its node keeps.
    """

    node: NodeId
    recipe: int
    meta: str
    created: float  # Unix seconds, UTC


class Comparison(NamedTuple):
    """The branches below one node: those that the writer picked, and those that they saw and left."""

    picked: tuple[Candidate, ...]
    others: tuple[Candidate, ...]


class _Origin(NamedTuple):
    recipe: int
    seed: int | None
    meta: str

    @property
    def branch(self) -> tuple[int, int | None]:
        """What all nodes of a branch have in common."""
        return self.recipe, self.seed


def comparisons(document: Document, without: Collection[NodeId] = ()) -> list[Comparison]:
    """Return all comparisons of a story. Picks of the nodes ``without`` do not count.

    For a thread of its own: it takes seconds for a long story, in many short steps.
    """
    origins = dict(_origins(document))
    picked: dict[NodeId, dict[NodeId, float]] = defaultdict(dict)  # parent → node → time of its pick
    for node, at in _picks(document).items():
        if node in without:
            continue
        with document.lock:
            first = _first_node(document, node, origins)
            parent = document.tree[first].parent if first is not None else None
        if first is not None and parent is not None:
            picked[parent][first] = at
    found = (_comparison(document, parent, nodes, origins) for parent, nodes in picked.items())
    return [one for one in found if one is not None]


def _picks(document: Document) -> dict[NodeId, float]:
    """Return the picked nodes with the time of the pick, without undone picks."""
    actions: dict[int, tuple[int, str, int, float]] = {}
    last = 0
    while True:
        with document.lock, document.store.reading() as db:
            query = "SELECT id, parent, verb, became, at FROM action WHERE id > ? ORDER BY id LIMIT ?"
            rows = db.execute(query, (last, _CHUNK)).fetchall()
            head = int(document.value("head", 0))
        actions.update((row[0], row[1:]) for row in rows)
        if len(rows) < _CHUNK:
            break
        last = rows[-1][0]
    found: dict[NodeId, float] = {}
    while head in actions:
        parent, verb, became, at = actions.pop(head)
        if verb == "pick":
            found.setdefault(became, at)
        head = parent
    return found


def _origins(document: Document) -> Iterator[tuple[NodeId, _Origin]]:
    """Yield the recipe and the seed of each node that a model wrote."""
    last = 0
    while True:
        with document.lock, document.store.reading() as db:
            query = "SELECT id, recipe, seed, meta FROM body WHERE id > ? ORDER BY id LIMIT ?"
            rows = db.execute(query, (last, _CHUNK)).fetchall()
        for node, recipe, seed, meta in rows:
            if isinstance(recipe, int):
                yield node, _Origin(recipe, seed, str(meta or ""))
        if len(rows) < _CHUNK:
            return
        last = rows[-1][0]


def _first_node(document: Document, node: NodeId, origins: dict[NodeId, _Origin]) -> NodeId | None:
    """Return the node in which the branch of ``node`` begins; None if no model wrote it, or it is gone."""
    tree = document.tree
    if node not in tree or node not in origins:
        return None
    while (above := tree[node].parent) is not None:
        if above not in origins or origins[above].branch != origins[node].branch:
            break
        if any(child != node and child in origins for child in tree.all_children(above)):
            break  # a round of its own, with the same seeds
        node = above
    return node


def _comparison(
    document: Document, parent: NodeId, nodes: dict[NodeId, float], origins: dict[NodeId, _Origin]
) -> Comparison | None:
    """Return the comparison below ``parent``, of which ``nodes`` were picked; None if there was no choice."""
    with document.lock:
        if parent not in document.tree:
            return None
        below = [document.tree[child] for child in document.tree.all_children(parent)]
    until = max(nodes.values())
    picked = [entry for entry in below if entry.id in nodes]
    taken = {
        origins[entry.id].branch for entry in picked
    }  # a picked branch that was edited stays beside the edit
    others = [
        entry
        for entry in below
        if entry.id in origins and entry.chars and entry.created <= until and origins[entry.id] not in taken
    ]
    if not picked or not others:
        return None

    def candidate(entry: Entry) -> Candidate:
        origin = origins[entry.id]
        return Candidate(entry.id, origin.recipe, origin.meta, entry.created)

    return Comparison(tuple(map(candidate, picked)), tuple(map(candidate, others)))
