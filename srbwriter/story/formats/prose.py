"""The active path as chapters and paragraphs, for formats that are read rather than edited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from srbwriter.story.draft import DraftNode, StoryDraft, path_to
from srbwriter.story.formats.markdown import HEADING

_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Chapter:
    """A title, which may be empty, and the text below it."""

    title: str
    text: str


def chapters(draft: StoryDraft) -> list[Chapter]:
    """The path cut at chapter marks, or at headings in the text if nothing is marked."""
    path = path_to(draft, draft.current_id)
    if not any(node.marks.chapter for node in path):
        return _by_headings("".join(node.text for node in path))
    found: list[Chapter] = []
    for title, text in _by_marks(path):
        heading = HEADING.match(text.lstrip("\n"))
        if heading and (not title or heading.group(1) == title):
            title, text = heading.group(1), text.lstrip("\n")[heading.end() :]
        if title or text.strip():
            found.append(Chapter(title, text))
    return found or [Chapter("", "")]


def _by_marks(path: Sequence[DraftNode]) -> list[tuple[str, str]]:
    parts: list[tuple[str, list[str]]] = [("", [])]
    for node in path:
        if node.marks.chapter:
            parts.append((node.marks.title, []))
        parts[-1][1].append(node.text)
    return [(title, "".join(texts)) for title, texts in parts]


def _by_headings(text: str) -> list[Chapter]:
    headings = list(HEADING.finditer(text))
    edges = [*(heading.start() for heading in headings), len(text)]
    first = text[: edges[0]]
    found = [Chapter("", first)] if first.strip() or not headings else []
    for heading, end in zip(headings, edges[1:], strict=True):
        found.append(Chapter(heading.group(1), text[heading.end() : end]))
    return found


def paragraphs(text: str) -> list[str]:
    """Paragraphs as XHTML text: blank lines separate them, or line ends where there are no blank lines."""
    text = text.strip("\n")
    if not text.strip():
        return []
    parts = _BLANK_LINES.split(text) if _BLANK_LINES.search(text) else text.split("\n")
    return [xml_text(part).replace("\n", "<br/>\n") for part in parts if part.strip()]


def xml_text(text: str) -> str:
    """Text for XML: escaped, and without the control characters that XML cannot hold."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))
