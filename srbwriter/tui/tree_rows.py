"""A story's tree as lines: the way to where the writer stands runs straight down, the rest hangs beside it.

Depth grows only where a branch leaves the way, so that a long story stays readable. Reads the story; knows no
screen.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from srbwriter.story import ROOT, NodeId, Story


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a node, or ``folded`` further ones under its parent ``node``."""

    node: NodeId
    depth: int
    on_way: bool = False
    folded: int = 0


def rows(story: Story, top: NodeId = ROOT, opened: Set[NodeId] = frozenset()) -> list[Row]:
    """The lines of the tree from ``top`` down.

    Branches beside the way are folded into one line per fork, unless their parent is in ``opened``; those at
    the writer's own place are open, unless it is.
    """
    here = story.current
    way = set(story.path(here))
    found: list[Row] = []
    # Last in, first out: what is pushed first is shown last.
    waiting: list[Row] = [Row(top, 0, on_way=True)]
    while waiting:
        row = waiting.pop()
        found.append(row)
        if row.folded:
            continue
        children = story.children(row.node)
        main = next((child for child in children if child in way), None)
        if main is None and row.node not in way and children:
            main = children[0]
        others = [child for child in children if child != main]
        if main is not None:
            waiting.append(Row(main, row.depth, on_way=main in way))
        is_open = (row.node in opened) != (row.node == here)
        if is_open or (len(others) == 1 and row.node not in way):
            waiting.extend(Row(child, row.depth + 1) for child in reversed(others))
        elif others:
            waiting.append(Row(row.node, row.depth + 1, folded=len(others)))
    return found
