"""The workspace: the state of the screen, stored in the story file and restored at the next opening.

The record names the shown round by the nodes of its branches, in the order of the panes' numbers, and holds
the state of the interface (its *view*). It applies only at the node that was current. The recorder writes it,
in the transaction of typed words or in a separate one, so that no key waits for it. Rounds that the writer
left have records of their own, written with the verb that leaves them, so that undoing shows them again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import cast

from srbwriter.story import Node, NodeId, NoSuchNode, Story, StoryError
from srbwriter.story.model import JsonObject, JsonValue, as_list, as_object

from .prefix import Prefix
from .rounds import Round, Track, ended_round

log = logging.getLogger(__name__)

KEPT = "workspace"
"""The local value of the story that holds the record."""
LEFT = "rounds"
"""The local value that holds the records of rounds that were left, the last one at the end."""
_MOST_LEFT = 12


class Workspace:
    """Records the state of the screen in ``story``. ``shown`` returns the shown round."""

    def __init__(self, story: Story, shown: Callable[[], Round | None]) -> None:
        self._story, self._shown = story, shown
        self.view: JsonObject = as_object(self._kept.get("view")) if self._applies else {}
        """What the face wants to find again; empty where nothing is known."""

    @property
    def _kept(self) -> JsonObject:
        return as_object(cast(JsonValue, self._story.local_value(KEPT)))

    @property
    def _applies(self) -> bool:
        """Whether the writer is still at the node of the record."""
        return self._kept.get("at") == self._story.current

    @property
    def changed(self) -> bool:
        """Whether the screen differs from the record in the story file."""
        return self._story.read_only is None and self._record() != self._kept

    def write(self) -> None:
        """Write the record, within a transaction. Raises StoryError."""
        if self._story.read_only is None and self.changed:
            self._story.put_local_value(KEPT, self._record())

    def _record(self) -> JsonObject:
        record: JsonObject = {"at": self._story.current, "view": self.view}
        current = self._shown()
        if current is None:
            return record
        if not current.tracks:  # the round waits for the model, and the screen shows the previous one
            return record | {"round": self._kept.get("round")}
        return record | {"round": _round_record(self._story, current)}

    def restore(self) -> Round | None:
        """Return the recorded round, ended; None without one, or if the story has changed since.

        A damaged record counts as none.
        """
        kept = as_object(self._kept.get("round"))
        return self._restore(kept) if self._applies and kept else None

    def leave(self, left: Round) -> None:
        """Record a round that the writer leaves, within a transaction. Raises StoryError."""
        if self._story.read_only is None and left.tracks:
            record = _round_record(self._story, left)
            others = [other for other in self._left if other.get("parent") != left.parent]
            self._story.put_local_value(LEFT, [*others, record][-_MOST_LEFT:])

    def left_at(self, node: NodeId) -> Round | None:
        """Return the round that the writer left at ``node`` last, ended; None as :meth:`restore` does."""
        kept = next((record for record in self._left if record.get("parent") == node), None)
        return self._restore(kept) if kept is not None else None

    @property
    def _left(self) -> list[JsonObject]:
        return [as_object(record) for record in as_list(cast(JsonValue, self._story.local_value(LEFT)))]

    def _restore(self, record: JsonObject) -> Round | None:
        try:
            return _restored(self._story, record)
        except (NoSuchNode, ValueError, TypeError, LookupError) as error:
            log.warning("the branches that were on the screen are not restored: %s", error)
        except StoryError as error:  # the next read of the story reports the damage
            log.warning("the branches that were on the screen cannot be read: %s", error)
        return None


def _round_record(story: Story, current: Round) -> JsonObject:
    branches: list[JsonValue] = [_branch_record(track) for track in current.tracks]
    return {
        "parent": current.parent,
        "newest": _newest(story, current.parent),
        "prefix": None if current.prefix is None else [*current.prefix],
        "taken": current.taken,
        "branches": branches,
        "forced": sorted(current.forced),
        "renewed": {str(index): times for index, times in dict(current.duplicates.renewed).items()},
    }


def _branch_record(track: Track) -> JsonObject:
    nodes: list[JsonValue] = [[node, start] for node, start in track.nodes]
    return {"nodes": nodes, "chars": track.chars if track.complete else None}


def _newest(story: Story, parent: NodeId) -> NodeId:
    """Return the newest child of ``parent``."""
    try:
        return max(story.children(parent), default=0)
    except NoSuchNode:
        return 0


def _restored(story: Story, kept: JsonObject) -> Round | None:
    parent, prefix = int(cast(int, kept["parent"])), as_list(kept["prefix"])
    newest = int(cast(int, kept["newest"]))
    later = story.nodes([child for child in story.children(parent) if child > newest])
    branches = [_parts(story, as_object(branch)) for branch in as_list(kept["branches"])]
    written = [node for node in later if node.author == "model"]
    known = [node for parts in branches for node, _ in parts]
    if any(not any(_alike(node, own) for own in known) for node in written):
        return None  # a program without a workspace wrote them
    if not branches:
        return None
    found = ended_round(story, parent, _prefix(prefix) if prefix else None, branches)
    found.taken = bool(kept["taken"])
    found.forced = set(_numbers(kept["forced"]))
    renewed = as_object(kept["renewed"])
    found.duplicates.renewed.update({int(i): int(cast(int, times)) for i, times in renewed.items()})
    return found


def _prefix(fields: Sequence[JsonValue]) -> Prefix:
    length, digest, end = fields
    return Prefix(int(cast(int, length)), str(digest), str(end))


def _numbers(value: JsonValue) -> list[int]:
    return [int(cast(int, number)) for number in as_list(value)]


def _parts(story: Story, branch: JsonObject) -> list[tuple[Node, str]]:
    """Return the nodes of a branch, each with the text that the branch has in it."""
    places = [_numbers(place) for place in as_list(branch["nodes"])]
    ends = [*(start for _, start in places[1:]), branch["chars"]]
    parts: list[tuple[Node, str]] = []
    for (node, start), end in zip(places, ends, strict=True):
        parts += _written(story, node, None if end is None else int(cast(int, end)) - start)
    return parts


def _written(story: Story, number: NodeId, length: int | None) -> list[tuple[Node, str]]:
    """Return what a branch wrote into a node, which may have been edited or split since.

    ``length`` is the number of its characters; None if the branch was still being written.
    """
    node = story.node(number)
    if node.author == "edited":  # the unedited version is beside it
        beside = (n for n in story.nodes(story.siblings(number)) if n.author == "model" and _alike(n, node))
        node = next(beside, node)
    if length is None:
        return [(node, node.text)]
    parts = [(node, node.text[:length])]
    left = length - len(node.text)
    while left > 0:  # a part of it was picked: the rest is below
        below = story.nodes(story.children(parts[-1][0].id))
        rest = next((n for n in below if n.author == node.author and _alike(n, node)), None)
        if rest is None:
            break
        parts.append((rest, rest.text[:left]))
        left -= len(rest.text)
    return parts


def _alike(node: Node, other: Node) -> bool:
    """Whether two nodes are parts or versions of one branch."""
    return node.seed == other.seed and node.seed is not None
