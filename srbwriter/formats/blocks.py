"""Books as blocks: headings, paragraphs, scene breaks, notes; one function reads them, one makes them.

The text of a block is Markdown with nothing but emphasis in it. In a story, blank lines separate blocks, a
heading begins a chapter, and footnotes stand at the end of their chapter: ``[^1]: …``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from srbwriter.formats.draft import Grower
from srbwriter.formats.inline import Inline, inlines, marked
from srbwriter.story.draft import StoryDraft
from srbwriter.story.outline import is_scene_break, outline

Kind = Literal["title", "author", "heading", "paragraph", "item", "break", "note", "comment"]

NOTE = re.compile(r"\[\^([^\]\s]+)\]")
"""Where a footnote belongs."""

_NOTE_TEXT = re.compile(r"\[\^([^\]\s]+)\]:[ \t]*")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_SAID_BY_MARKS = re.compile(r"^(?=#{1,6}[ \t]+\S|```)", re.MULTILINE)
_SPACE = re.compile(r"\s+")


class Block(NamedTuple):
    """A block. ``level`` is that of a heading (1 to 6), and the number of a note.

    A title is the whole book's, an author is a line that may only say again who wrote it.
    """

    kind: Kind
    level: int
    text: str


# -- from a book --------------------------------------------------------------------------------------


def block_of(kind: Kind, parts: Sequence[Inline], level: int = 0) -> Iterator[Block]:
    """Yield a block of these words; none without words."""
    words = "".join(part.text for part in parts)
    if not words.strip():
        return
    if kind in ("title", "author", "comment"):
        yield Block(kind, level, words.strip())
    elif kind == "heading":
        yield Block(kind, max(1, min(level, 6)), _SPACE.sub(" ", marked(parts)).strip())
    elif is_scene_break(words):
        yield Block("break", 0, words.strip())
    else:  # each line is marked by itself
        pieces = ((part, piece) for part in parts for piece in re.split("(\n)", part.text))
        parts = [Inline("\n") if piece == "\n" else part._replace(text=piece) for part, piece in pieces]
        yield Block(kind, level, _SAID_BY_MARKS.sub(r"\\", marked(parts)))


def read_blocks(blocks: Iterable[Block], title: str = "", author: str = "") -> StoryDraft:
    """Make a story of a book's blocks: a node for each chapter.

    Args:
        blocks: the blocks, in the order in which they are read.
        title: the title that the book gives elsewhere; a first heading that only repeats it is left out.
        author: the author, likewise.
    """
    grower = Grower()
    here = grower.root
    own_title = ""
    texts: list[str] = []
    notes: list[str] = []
    comments: list[str] = []
    last: Kind = "break"

    def end_chapter(gap: str) -> None:
        nonlocal here
        if texts or comments:
            text = "".join([*texts, *(f"\n\n{note}" for note in notes), gap])
            here = grower.add(here, text, note="\n".join(comments))
            for held in (texts, notes, comments):
                held.clear()

    for kind, level, text in blocks:
        at_start = here is grower.root and not texts
        if kind == "title" and at_start:
            own_title = " ".join(f"{own_title} {text}".split())
        elif kind == "author" and at_start and text == author.strip():
            continue
        elif kind == "note":
            notes.append(f"[^{level}]: {_SPACE.sub(' ', text).strip()}")
        elif kind == "comment":
            comments.append(text)
        elif kind in ("heading", "title"):
            if at_start and title and plain_title(text).casefold() == " ".join(title.split()).casefold():
                continue
            end_chapter("\n\n")
            texts.append(f"{'#' * max(level, 1)} {text}")
            last = "heading"
        else:
            texts += ["\n" if kind == last == "item" else "\n\n"] if texts else []
            texts.append(f"- {text}" if kind == "item" else text)
            last = kind
    end_chapter("")
    draft = grower.draft(here, own_title or title)
    draft.byline = author.strip()
    return draft


# -- to a book ----------------------------------------------------------------------------------------


class BookChapter(NamedTuple):
    """The part of a book that begins with a heading, which may be missing, and its footnotes by label."""

    title: str
    blocks: list[Block]
    notes: dict[str, str]


def heading_starts(text: str) -> list[int]:
    """Return where headings start; a line inside fenced code is none."""
    return [heading.begin for heading in outline(text) if heading.level]


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the blocks of a text. Blank lines separate paragraphs, or line ends in a chapter without them."""
    headings = [heading for heading in outline(text) if heading.level]
    starts = [0, *(heading.end for heading in headings)]
    ends = [*(heading.begin for heading in headings), len(text)]
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if place:
            yield Block("heading", headings[place - 1].level, headings[place - 1].title)
        part, held = text[start:end].strip("\n"), list[str]()
        by_lines = not _BLANK_LINE.search(part)
        for line in [*part.split("\n"), ""]:
            if held and (by_lines or not line.strip() or is_scene_break(line)):
                words = "\n".join(held)
                yield Block("note" if _NOTE_TEXT.match(words) else "paragraph", 0, words)
                held = []
            if is_scene_break(line):
                yield Block("break", 0, line.strip())
            elif line.strip():
                held.append(line)


def chapters(draft: StoryDraft) -> list[BookChapter]:
    """Return the path's blocks cut at headings of the highest level that occurs more than once, or at all."""
    blocks = list(blocks_of(draft.text))
    levels = sorted(block.level for block in blocks if block.kind == "heading")
    cut = next((level for level in levels if levels.count(level) > 1), levels[0] if levels else 0)
    found = [BookChapter("", [], {})]
    for block in blocks:
        if block.kind == "heading" and block.level <= cut:
            found.append(BookChapter(block.text, [], {}))
        found[-1].blocks.append(block)
    for chapter in found:
        said = " ".join(block.text for block in chapter.blocks if block.kind != "note")
        labels = set(NOTE.findall(said))
        for block in [block for block in chapter.blocks if block.kind == "note"]:
            label = _NOTE_TEXT.match(block.text)
            if label is not None and label[1] in labels and label[1] not in chapter.notes:
                chapter.notes[label[1]] = block.text[label.end() :]
                chapter.blocks.remove(block)
    return [chapter for chapter in found if chapter.blocks] or found[:1]


def plain_title(text: str) -> str:
    """Return the words of a heading in one line."""
    return " ".join("".join(part.text for part in inlines(text)).split())
