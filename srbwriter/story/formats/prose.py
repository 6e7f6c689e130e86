"""The active path as chapters, paragraphs and scene breaks, for formats that are read rather than edited."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

from srbwriter.story import headings
from srbwriter.story.formats.inline import Inline, inlines, marked
from srbwriter.story.headings import SCENE_BREAK, heading_line, is_scene_break
from srbwriter.story.model import DraftNode, StoryDraft, path_to

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_LINE_END = re.compile(r"\n")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FENCE_OR_HEADING = re.compile(r"^(?:(```|~~~)|#{1,6}[ \t]+\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of Markdown; ``level`` is 1 to 6, the title may hold marks of emphasis."""

    level: int
    title: str


@dataclass(frozen=True, slots=True)
class SceneBreak:
    """A line of stars or the like, as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One or several lines, which may hold marks of emphasis."""

    text: str


Block = Heading | SceneBreak | Paragraph


@dataclass(frozen=True, slots=True)
class Chapter:
    """A title, which may be empty, and the text below it."""

    title: str
    text: str
    level: int = 1


def heading_at(text: str, start: int = 0) -> tuple[Heading, int] | None:
    """The heading that the line at ``start`` is, and where the line ends; None for any other line."""
    found = heading_line(text, start)
    return None if found is None else (Heading(found[0], found[1]), found[2])


def heading_starts(text: str) -> list[int]:
    """Where headings start; a line inside fenced code is none."""
    starts: list[int] = []
    fenced = False
    for match in _FENCE_OR_HEADING.finditer(text):
        if match.group(1):
            fenced = not fenced
        elif not fenced:
            starts.append(match.start())
    return starts


def chapters(draft: StoryDraft) -> list[Chapter]:
    """The path cut at the headings of chapters, or at headings in the text if nothing is marked."""
    text, marks = marked_text(path_to(draft, draft.current_id))
    if not marks:
        return _by_headings(text)
    found = [Chapter("", "")]
    parts: list[list[str]] = [[]]
    at = 0
    for heading in added_headings(text, marks, with_own=True):
        parts[-1].append(text[at : heading.start])
        at = heading.start
        own = heading_at(text, at) if heading.in_text else None
        if own is not None:
            at = own[1]
            found.append(Chapter(own[0].title, "", own[0].level))
            parts.append([])
        elif heading.title:
            found.append(Chapter(marked_title(heading.title), ""))
            parts.append([])
        elif not heading.in_text:
            parts[-1].append(f"{SCENE_BREAK}\n")
    parts[-1].append(text[at:])
    whole = [replace(chapter, text="".join(texts)) for chapter, texts in zip(found, parts, strict=True)]
    return [chapter for chapter in whole if chapter.title or chapter.text.strip()] or [Chapter("", "")]


def marked_text(path: Sequence[DraftNode]) -> tuple[str, list[tuple[int, str]]]:
    """Return the text of a path, and where its chapters begin, with their titles."""
    marks: list[tuple[int, str]] = []
    at = 0
    for node in path:
        if node.marks.chapter:
            marks.append((at, node.marks.title))
        at += len(node.text)
    return "".join(node.text for node in path), marks


def added_headings(
    text: str, marks: Sequence[tuple[int, str]], *, with_own: bool = False
) -> Iterator[headings.Heading]:
    """Yield the headings that an export adds to ``text``, ``with_own`` those that are in it, too.

    A scene break directly after a heading is left out.
    """
    last = 0
    for heading in headings.headings(text, marks):
        begins_scene = bool(text[last : heading.start].strip())
        if (heading.title or begins_scene) and (with_own or not heading.in_text):
            yield heading
        last = heading.start


def text_with_headings(draft: StoryDraft, *, markdown: bool) -> str:
    """Return the text of the path with the headings that it does not hold, each a paragraph of its own."""
    text, marks = marked_text(path_to(draft, draft.current_id))
    parts: list[str] = []
    at = 0
    for heading in added_headings(text, marks):
        parts.append(text[at : heading.start])
        at = heading.start
        if at and not text.endswith("\n\n", 0, at):
            parts.append("\n")
        if markdown and heading.title:
            parts.append(f"# {marked_title(heading.title)}\n\n")
        else:
            parts.append(f"{heading.words}\n\n")
    return "".join([*parts, text[at:]])


def marked_title(title: str) -> str:
    """Return a title of plain words as Markdown that reads so, also in a heading."""
    words = marked([Inline(title)]).text
    return f"{words[:-1]}\\#" if words.endswith("#") and not words.endswith("\\#") else words


def _by_headings(text: str) -> list[Chapter]:
    starts = heading_starts(text)
    edges = [*starts, len(text)]
    first = text[: edges[0]]
    found = [Chapter("", first)] if first.strip() or not starts else []
    for start, end in zip(starts, edges[1:], strict=True):
        heading = heading_at(text, start)
        assert heading is not None  # both patterns say the same of a line
        found.append(Chapter(heading[0].title, text[heading[1] : end], heading[0].level))
    return found


def blocks(text: str) -> Iterator[Block]:
    """Return the blocks below a chapter's title.

    Blank lines separate paragraphs, or line ends where there are no blank lines.
    """
    start, end = len(text) - len(text.lstrip("\n")), len(text.rstrip("\n"))
    separator = _BLANK_LINES if _BLANK_LINES.search(text, start, end) else _LINE_END
    for gap in separator.finditer(text, start, end):
        yield from _of_lines(text, start, gap.start())
        start = gap.end()
    yield from _of_lines(text, start, end)


def _of_lines(text: str, start: int, end: int) -> Iterator[Block]:
    """Headings and scene breaks end a paragraph also where no blank line does."""
    begun = -1
    while start <= end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        line = text[start:stop]
        heading = heading_at(line)
        ends = heading is not None or is_scene_break(line) or not line.strip()
        if ends and begun >= 0:
            yield Paragraph(text[begun : start - 1])
            begun = -1
        if heading is not None:
            yield heading[0]
        elif ends and line.strip():
            yield SceneBreak(line.strip())
        elif not ends and begun < 0:
            begun = start
        start = stop + 1
    if begun >= 0:
        yield Paragraph(text[begun:end])


def xhtml(text: str) -> str:
    """Return a paragraph or a title as XHTML: escaped, with tags for emphasis and line breaks."""
    texts: list[str] = []
    for part in inlines(text):
        words = xml_text(part.text).replace("\n", "<br/>\n")
        for tag, on in (("em", part.emphasis), ("strong", part.strong)):
            if on:
                words = f"<{tag}>{words}</{tag}>"
        texts.append(words)
    return "".join(texts)


def xml_text(text: str) -> str:
    """Text for XML: escaped, and without the control characters that XML cannot hold."""
    return escape(xml_characters(text))


def xml_characters(text: str) -> str:
    """Replace each control character that XML cannot hold by U+FFFD."""
    return _NOT_IN_XML.sub("\ufffd", text)


def path_text(draft: StoryDraft) -> str:
    """The story from the root to the current node."""
    return "".join(node.text for node in path_to(draft, draft.current_id))
