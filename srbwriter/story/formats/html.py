"""A page that shows the whole tree, complete in itself: no scripts, nothing loaded from anywhere.

The current path is plain text to read; at every fork the other branches fold out.  Away from the
current path the child with the most below it carries the text on, so that branches are nested no
deeper than the logarithm of the number of nodes.

Emphasis and headings are set line of reading by line of reading: all nodes that carry the same text on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from srbwriter.story.formats import webpage
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.inline import Inline, placed, plain
from srbwriter.story.formats.prose import Heading as HeadingBlock
from srbwriter.story.formats.prose import (
    Paragraph,
    added_headings,
    inline_xhtml,
    placed_blocks,
    xhtml,
    xml_text,
)
from srbwriter.story.headings import Heading
from srbwriter.story.languages import language_tag
from srbwriter.story.model import (
    DraftNode,
    StoryDraft,
    children_by_parent,
    nested_text,
    path_to,
)

NAME = "html"
GENERATOR = '<meta name="generator" content="srbwriter">'

_STYLE = """
:root { color-scheme: light dark; --quiet: #777; --model: #1a5fb4; --edited: #a3386c; }
@media (prefers-color-scheme: dark) { :root { --quiet: #999; --model: #8ab8f5; --edited: #e29ac0; } }
body { font: 1.1rem/1.6 Georgia, serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem; }
.story { white-space: pre-wrap; overflow-wrap: break-word; }
.story :is(h2, h3, h4, h5, h6) { margin: 0; }
.model { color: var(--model); } .edited { color: var(--edited); }
details { margin: .3rem 0; padding-left: 1rem; border-left: 2px solid var(--quiet); }
summary { cursor: pointer; color: var(--quiet); font-size: .85rem; white-space: nowrap;
  overflow: hidden; text-overflow: ellipsis; }
header, footer { color: var(--quiet); font-size: .85rem; }
"""

_OPENING = 80
"""Characters of a branch shown while it is folded."""

_BEFORE = 2_000
"""Most characters before a branch in which emphasis that continues in it may have begun."""


def write(draft: StoryDraft) -> bytes:
    title = xml_text(draft.title.strip() or "Untitled")
    author = xml_text(draft.byline.strip())
    page = f"""<!DOCTYPE html>
<html lang="{language_tag(draft.language) or "und"}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{GENERATOR}
{f'<meta name="author" content="{author}">' if author else ""}
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<header><h1>{title}</h1>{f"<p>{author}</p>" if author else ""}</header>
<main class="story">{_tree(draft)}</main>
<footer><p>Text by <span>the writer</span>, <span class="model">the model</span>, \
<span class="edited">the model, edited</span>.</p></footer>
</body>
</html>
"""
    return page.encode("utf-8", "replace")


def _tree(draft: StoryDraft) -> str:
    children = children_by_parent(draft)
    carries_on = _carriers(draft, children)
    shown = _shown(draft, carries_on)

    def parts(node: DraftNode) -> Iterator[str | DraftNode]:
        yield shown[node.id]
        main = carries_on.get(node.id)
        for branch in children[node.id]:
            if branch is not main:
                yield from (f"<details><summary>{_opening(branch)}</summary>", branch, "</details>")
        if main is not None:
            yield main

    return nested_text(draft.root, parts)


def _carriers(draft: StoryDraft, children: dict[str, list[DraftNode]]) -> dict[str, DraftNode]:
    """For every node with children, the one that carries the text on."""
    sizes: dict[str, int] = {}
    for node in reversed(draft.nodes):  # children come after their parents
        sizes[node.id] = 1 + sum(sizes[child.id] for child in children[node.id])
    on_path = {node.id for node in path_to(draft, draft.current_id)}
    return {
        node_id: max(below, key=lambda child: (child.id in on_path, sizes[child.id]))
        for node_id, below in children.items()
        if below
    }


def _shown(draft: StoryDraft, carries_on: dict[str, DraftNode]) -> dict[str, str]:
    """What every node's text becomes."""
    by_id = {node.id: node for node in draft.nodes}
    shown: dict[str, str] = {}
    for first in draft.nodes:
        if first.id in shown:
            continue
        line = [first]
        while (following := carries_on.get(line[-1].id)) is not None:
            line.append(following)
        before = _before(first, by_id)
        shown.update(zip((node.id for node in line), _set(line, before), strict=True))
    return shown


def _before(node: DraftNode, by_id: dict[str, DraftNode]) -> str:
    """The text from the beginning of the line in which ``node`` begins."""
    before = ""
    while node.parent_id is not None and "\n" not in before and len(before) < _BEFORE:
        node = by_id[node.parent_id]
        before = node.text[-_BEFORE:] + before
    return before[before.rfind("\n") + 1 :]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a text: words of one look, or a heading, which has a ``level``.

    ``added`` is the tag of a heading or scene break that the text does not hold.
    """

    start: int
    end: int
    inline: Inline
    level: int = 0
    added: str = ""


def _set(line: Sequence[DraftNode], before: str) -> Iterator[str]:
    """Return the nodes of one reading path in order, each as the content of its page."""
    text = before + "".join(node.text for node in line)
    edges = list(accumulate((len(node.text) for node in line), initial=len(before)))
    marks = [(at, node.marks.title) for at, node in zip(edges, line, strict=False) if node.marks.chapter]
    pieces = list(_with_headings(list(_pieces(text, edges)), text, marks, len(before)))
    at = 0
    for node, low, high in zip(line, edges, edges[1:], strict=False):
        while at < len(pieces) and pieces[at].end <= low and pieces[at].start != low:
            at += 1
        here: list[_Piece] = []
        for index in range(at, len(pieces)):
            if pieces[index].start >= high and not (node is line[-1] and not pieces[index].end > high):
                break
            here.extend(_cut(pieces[index], low, high))
        yield _spans(node, here)


def _pieces(text: str, edges: Sequence[int]) -> Iterator[_Piece]:
    """All of ``text`` but the marks; ``edges`` are where nodes meet."""
    at = 0
    for start, end, block in placed_blocks(text):
        if at < start:
            yield _Piece(at, start, Inline(text[at:start]))
        at = end
        match block:
            case Paragraph():
                for place in placed(text[start:end]):
                    yield _Piece(start + place.start, start + place.end, place.inline)
            case HeadingBlock(level, title) if bisect_right(edges, start) == bisect_left(edges, end):
                yield _Piece(start, end, Inline(title), min(level + 1, 6))  # the story's title is the first
                at += text.startswith("\n", end)  # the heading is a line of its own anyway
            case _:
                yield _Piece(start, end, Inline(text[start:end]))
    if at < len(text):
        yield _Piece(at, len(text), Inline(text[at:]))


def _with_headings(
    pieces: Sequence[_Piece], text: str, marks: Sequence[tuple[int, str]], least: int
) -> Iterator[_Piece]:
    """Yield ``pieces``, and before the paragraphs of chapters the headings that ``text`` does not hold.

    Headings before character ``least`` are placed there.
    """
    added = deque((max(heading.start, least), heading) for heading in added_headings(text, marks))
    for piece in pieces:
        while added and added[0][0] < piece.end:
            at, heading = added.popleft()
            if piece.start < at:
                yield from _cut(piece, piece.start, at)
                rest = list(_cut(piece, at, piece.end))
                piece = rest[0] if rest else _Piece(at, piece.end, Inline(""))
            yield _added(at, heading)
        yield piece
    for at, heading in added:
        yield _added(at, heading)


def _added(at: int, heading: Heading) -> _Piece:
    tag = f"<h2>{xml_text(heading.title)}</h2>" if heading.title else "<hr>"
    return _Piece(at, at, Inline(""), added=tag)


def _cut(piece: _Piece, low: int, high: int) -> Iterator[_Piece]:
    """The part of ``piece`` between ``low`` and ``high``; an escaped character is where it begins."""
    if low <= piece.start and piece.end <= high:
        yield piece
    elif len(piece.inline.text) == piece.end - piece.start:
        start, end = max(low, piece.start), min(high, piece.end)
        words = piece.inline.text[start - piece.start : end - piece.start]
        yield _Piece(start, end, Inline(words, piece.inline.emphasis, piece.inline.strong))
    elif low <= piece.start < high:
        yield piece


def _spans(node: DraftNode, pieces: Sequence[_Piece]) -> str:
    if not node.text and not pieces:
        return ""
    by = f' class="{node.author}"' if node.author in ("model", "edited") else ""
    anchor = f' id="{xml_text(node.id)}"' if node.marks.chapter else ""
    texts: list[str] = []
    words: list[str] = []
    for piece in [*pieces, None]:
        if piece is not None and not piece.level and not piece.added:
            words.append(inline_xhtml(piece.inline, "\n"))
            continue
        if words:
            texts.append(f"<span{by}{anchor}>{''.join(words)}</span>")
            words, anchor = [], ""
        if piece is not None and piece.added:
            texts.append(piece.added)
        elif piece is not None:
            tag = f"h{piece.level}"
            texts.append(f"<{tag}{by}{anchor}>{xhtml(piece.inline.text)}</{tag}>")
            anchor = ""
    return "".join(texts)


def _opening(node: DraftNode) -> str:
    words = plain(node.marks.title or " ".join(node.text.split()))
    if len(words) > _OPENING:
        words = words[: _OPENING - 1] + "…"
    return ("★ " if node.marks.bookmark else "") + (xml_text(words) or "(empty)")


FORMAT = Format(NAME, "HTML page (whole tree)", ".html", webpage.matches, webpage.read, write, of_text=True)
