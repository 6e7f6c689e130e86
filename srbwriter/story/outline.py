"""Chapters and scenes: lines of the text that begin with ``#``, and scene breaks.

The outline is read from the text. Two chapters change places by new parents of their first nodes, so that
nodes keep their numbers and tokens; of a node that both share, copies of its parts move.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from srbwriter.story.model import ROOT, Refused, State
from srbwriter.story.node import Node
from srbwriter.story.spans import part_of, plain
from srbwriter.story.tree import Tree
from srbwriter.story.words import words_of

SCENE_BREAK = "* * *"
"""The text of a scene break."""

_HEADING = re.compile(r"(#{1,6})[ \t]+(\S(?:[^\n]*\S)?)")
_BREAK = re.compile(r"[ \t]*(?:([*_~=•·⁂-])(?:[ \t]*\1){2,}|[#*⁂❦❧☙⁑])[ \t]*")
_MARKED = re.compile(r"^```.*?(?:^```|\Z)|^[ \t]*[#*_~=•·⁂❦❧☙⁑-][^\n]*", re.MULTILINE | re.DOTALL)
"""Fenced code, and lines that may begin a chapter or a scene."""


def heading_line(text: str, start: int = 0) -> tuple[int, str, int] | None:
    """Level and title of the Markdown heading that the line at ``start`` is, and where that line ends."""
    found = _HEADING.match(text, start)
    # A heading may be closed by such signs.
    return found and (len(found[1]), re.sub(r"[ \t]+#+$", "", found[2]), found.end())


def is_scene_break(line: str) -> bool:
    """Return whether a line is stars, dashes or the like and nothing else."""
    return _BREAK.fullmatch(line) is not None


class Chapter(NamedTuple):
    """A chapter, or a scene without a ``title``: the line that begins it, and the words until the next one.

    Words of a chapter are those of its scenes too. ``level`` is the number of signs; 0 for a scene. ``end``
    is the end of its line.
    """

    title: str
    begin: int
    end: int
    level: int
    words: int = 0


def outline(text: str) -> list[Chapter]:
    """Return the chapters and scenes of ``text``; a line inside fenced code begins none."""
    found: list[Chapter] = []
    for line in _MARKED.finditer(text):
        begin, bare = line.start(), line[0].rstrip()
        if (heading := heading_line(bare)) is not None:
            found.append(Chapter(heading[1], begin, begin + len(bare), heading[0]))
        elif is_scene_break(bare):
            found.append(Chapter("", begin, begin + len(bare), 0))
    next_one = next_chapter = len(text)
    for place, one in reversed([*enumerate(found)]):
        words = words_of(text[one.end : next_chapter if one.title else next_one])
        found[place] = one._replace(words=words)
        next_one = one.begin
        next_chapter = one.begin if one.title else next_chapter
    return found


def heading_of(title: str, level: int = 1) -> str:
    """Return the line that begins a chapter called ``title``, or a scene."""
    words = " ".join(title.split())
    return f"{'#' * level} {words}" if words else SCENE_BREAK


def heading_at(text: str, at: int, title: str) -> tuple[int, str]:
    """Return the place of a new heading for the paragraph at ``at``, and the heading with its empty lines.

    At the end of the text it follows the last paragraph.
    """
    at = text.rfind("\n", 0, at) + 1 if text[at:].strip() else len(text)
    before = text[:at]
    missing = "" if not before.strip() else "\n\n"[min(2, len(before) - len(before.rstrip("\n"))) :]
    return at, f"{missing}{heading_of(title)}\n\n"


def move_chapter(tree: Tree, place: int, later: bool) -> int:
    """Exchange the chapter that holds character ``place`` with the next or previous one, within a verb.

    Scenes move with their chapter; in a text without titles, a scene moves. Returns where it starts now.
    """
    edges = _neighbours(tree.text(tree.current), place, later)
    parts: tuple[list[Node], ...] = [], [], [], []  # what is before, the two chapters, what is behind
    waiting, at = tree.nodes(tree.path(tree.current)[:0:-1]), 0
    while waiting:
        node = waiting.pop()
        if inner := [edge - at for edge in edges if at < edge < at + len(node.text)]:
            waiting += [_copy(tree, node, *ends) for ends in pairwise([0, *inner, len(node.text)])][::-1]
            continue
        parts[bisect_right(edges, at)].append(node)
        at += len(node.text)
    before, first, second, behind = parts
    ending = "".join(node.text for node in second)[-2:]
    if missing := "\n\n"[len(ending) - len(ending.rstrip("\n")) :]:  # the last chapter of a text
        second.append(tree.add_node(second[-1].id, plain(missing, "writer"), "writer"))
    above = ROOT
    for node in (*before, *second, *first, *behind):
        if node.parent != above:
            tree.set(node, parent=above, place=tree.last_place(above))
        above = node.id
    with tree.verb("move_chapter", above) as action:  # the verb around this one
        action.became = above
    return edges[0] + sum(len(node.text) for node in second) if later else edges[0]


def _copy(tree: Tree, node: Node, start: int, end: int) -> Node:
    """Add characters ``start`` to ``end`` of ``node`` as a node that has its place in the text."""
    spans = part_of(node.spans, start, end, tree.token_sizes)
    return tree.add_node(node.parent, spans, node.author, like=node, undone=State.ABSORBED)


def _neighbours(text: str, place: int, later: bool) -> tuple[int, int, int]:
    """Return where the two chapters to exchange start, and where the second of them ends."""
    found = outline(text)
    titled = any(chapter.title for chapter in found)
    kind = "chapter" if titled else "scene"
    starts = [chapter.begin for chapter in found if chapter.title or not titled]
    index = bisect_right(starts, place) - 1
    if index < 0:
        raise Refused("no chapter starts before the cursor; put the cursor into a chapter")
    if later and index == len(starts) - 1:
        raise Refused(f"this is the last {kind} already")
    if not later and index == 0:
        raise Refused(f"this is the first {kind} already")
    index -= not later
    first, second, third = [*starts, len(text)][index : index + 3]
    return first, second, third
