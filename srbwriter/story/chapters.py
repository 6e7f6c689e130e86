"""Chapters of the text: their headings, and moving one past another, as parts of an action.

A chapter is a node with the mark ``chapter``, and the nodes after it on the path up to the next one.
:mod:`.headings` places its heading. Chapters are exchanged by new parents for their first nodes, so nodes
keep their numbers, tokens and marks. Callers check whether a change is allowed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from srbwriter.story.arranging import set_entry, set_marks
from srbwriter.story.document import Document
from srbwriter.story.headings import Heading, headings
from srbwriter.story.history import Action, Split
from srbwriter.story.model import ROOT, NodeId, Refused
from srbwriter.story.spans import tidy
from srbwriter.story.tree import CHAPTER
from srbwriter.story.words import Count


class Chapter(NamedTuple):
    """A chapter or a scene on the path: its node, title, first character and words."""

    node: NodeId
    title: str
    begin: int
    words: int


def outline(document: Document, end: NodeId) -> list[Chapter]:
    """Return the chapters on the path to ``end``, without reading text."""
    tree, found, at = document.tree, list[Chapter](), 0
    counts: list[list[tuple[int, int]]] = []
    for node in tree.path(end):
        entry = tree[node]
        if entry.flags & CHAPTER:
            found.append(Chapter(node, entry.title or "", at, 0))
            counts.append([])
        if counts:
            counts[-1].append((entry.words, entry.edges))
        at += entry.chars
    return [
        chapter._replace(words=Count.total(rows).words) for chapter, rows in zip(found, counts, strict=True)
    ]


class Path:
    """The nodes on the path to the current one, and cuts between them."""

    def __init__(self, document: Document, action: Action) -> None:
        self._document, self._action = document, action
        self.nodes = document.tree.path(document.current)[1:]  # the root has no text

    def begins(self) -> Iterator[tuple[NodeId, int, int]]:
        """Yield each node with its first character and its end in the text."""
        at = 0
        for node in self.nodes:
            end = at + self._document.tree[node].chars
            yield node, at, end
            at = end

    def cut(self, at: int) -> NodeId | None:
        """Make a node begin at character ``at``; return the first one there, None at the end of the text."""
        for index, (node, begin, end) in enumerate(self.begins()):
            if begin <= at < end:
                if begin == at:
                    return node
                self._document.check_unwritten(node)
                split = Split(node, at - begin)
                self._action.run(self._document, split)
                self.nodes.insert(index + 1, split.rest)
                if self._action.became == node:
                    self._action.became = split.rest
                return split.rest
        return None


def begin(document: Document, action: Action, at: int, title: str) -> NodeId:
    """Make a chapter begin at character ``at`` of the text; return its node, which is empty at the end."""
    path = Path(document, action)
    node = next((n for n, start, end in path.begins() if _leads_to(document, n, start, end, at)), None)
    node = path.cut(at) if node is None else node
    if node is None:
        last = path.nodes[-1] if path.nodes else ROOT
        entry = document.tree[last]
        if last != ROOT and not entry.chars and entry.author == "writer":
            node = last
        else:
            document.check_unwritten(last)
            node = action.became = document.add(last, (), "writer")
            action.created(node)
    set_heading(document, action, node, title)
    return node


def _leads_to(document: Document, node: NodeId, start: int, end: int, at: int) -> bool:
    """Return whether ``node`` begins with white space before character ``at``, and has words from there."""
    return start < at < end and not document.body(node).text[: at - start].strip()


def set_heading(document: Document, action: Action, node: NodeId, title: str | None) -> None:
    """Give ``node`` a heading with ``title`` (empty: a scene break), or none."""
    marks = replace(
        document.tree[node].marks, chapter=title is not None, title=" ".join((title or "").split())
    )
    set_marks(document, action, node, marks)


def move(document: Document, action: Action, text: str, place: int, later: bool) -> int:
    """Exchange the chapter that holds character ``place`` of ``text`` with the next or previous one.

    Scenes move with their chapter; in a text without titles, a scene moves. White space between chapters
    stays where it is. Returns where the chapter starts now.
    """
    first, second, third = _neighbours(document, text, place, later)
    upper, lower = text[first:second], text[second:third]
    gaps = first + len(upper.rstrip()), second + len(lower.rstrip())
    if not upper.strip() or not lower.strip() or text[gaps[0] : second] == text[gaps[1] : third]:
        gaps = second, third
    edges = (first, gaps[0], second, gaps[1], third)
    path = Path(document, action)
    _put_marks_at_starts(document, action, path, text)
    for at in edges:
        path.cut(at)
    parts: list[list[NodeId]] = [[], [], [], [], []]  # upper chapter, space, lower chapter, space, the rest
    above, part = ROOT, -1
    for node, begin, end in path.begins():
        starts_here = end > begin or document.tree[node].flags & CHAPTER
        here = bisect_right(edges, begin) if starts_here else bisect_left(edges, begin)
        part = max(part, here - 1)
        if part < 0:
            above = node
        else:
            parts[part].append(node)
    _keep_behind(document, action, parts[1], parts[0], parts[2])
    _keep_behind(document, action, parts[3], parts[2], parts[4])
    for nodes in (parts[2], parts[1], parts[0], parts[3], parts[4]):
        if nodes:
            if document.tree.parent(nodes[0]) != above:
                there = document.tree.last_place(above)
                set_entry(document, action, nodes[0], parent=above, place=there)
            above = nodes[-1]
    action.became = above
    return first + gaps[1] - gaps[0] if later else first


def _keep_behind(
    document: Document, action: Action, space: list[NodeId], words: list[NodeId], following: list[NodeId]
) -> None:
    """Copy ``space``, which moves, to the end of ``words`` for the branches after it that were not picked."""
    others = [c for c in document.tree.all_children(space[-1]) if c not in following[:1]] if space else []
    if others:
        spans = tidy(span for node in space for span in document.spans(node))
        copy = document.add(words[-1], spans, document.tree[space[-1]].author)
        action.created(copy)
        for node in others:
            set_entry(document, action, node, parent=copy)


def _neighbours(document: Document, text: str, place: int, later: bool) -> tuple[int, int, int]:
    """Return where the two chapters to exchange start, and where the second of them ends."""
    found = _headings(document, text)
    titled = any(heading.title for heading in found)
    kind = "chapter" if titled else "scene"
    starts = sorted({heading.start for heading in found if heading.title or not titled})
    index = bisect_right(starts, place) - 1
    if index < 0:
        raise Refused("no chapter starts before the cursor; put the cursor into a chapter")
    if later and index == len(starts) - 1:
        raise Refused(f"this is the last {kind} already")
    if not later and index == 0:
        raise Refused(f"this is the first {kind} already")
    index -= not later
    return tuple([*starts, len(text)][index : index + 3])  # type: ignore[return-value]


def _headings(document: Document, text: str) -> list[Heading]:
    marks = [(chapter.begin, chapter.title) for chapter in outline(document, document.current)]
    return list(headings(text, marks))


def _put_marks_at_starts(document: Document, action: Action, path: Path, text: str) -> None:
    """Let each chapter's node begin at its heading."""
    chapters = outline(document, document.current)
    for heading in headings(text, [(chapter.begin, chapter.title) for chapter in chapters]):
        chapter = chapters[heading.mark]
        node = path.cut(heading.start) if heading.start != chapter.begin else None
        if node is not None and not document.tree[node].flags & CHAPTER:
            set_heading(document, action, chapter.node, None)
            set_heading(document, action, node, chapter.title)


def chapter_headings(outline: list[Chapter], text: str) -> list[tuple[Chapter, Heading]]:
    """Return those chapters of ``text`` that have a heading, each with it."""
    marks = [(chapter.begin, chapter.title) for chapter in outline]
    return [(outline[found.mark], found) for found in headings(text, marks)]
