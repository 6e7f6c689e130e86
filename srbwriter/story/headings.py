"""The places of chapter headings and scene breaks, which are not part of the text.

A node that is marked as a chapter has a heading: its title, or a scene break if it has none. The heading is
shown before the paragraph in which the node's own words begin, unless that paragraph is itself a heading of
Markdown or a scene break.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

SCENE_BREAK = "* * *"
"""The text of a scene break."""

_SPACE = re.compile(r"\s*")
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S[^\n]*)")
_BREAK = re.compile(r"[ \t]*(?:([*_~=•·⁂-])(?:[ \t]*\1){2,}|[#*⁂❦❧☙⁑])[ \t]*")


class Heading(NamedTuple):
    """The heading before the paragraph that starts at character ``start``.

    ``title`` is empty for a scene break. ``in_text`` says that the paragraph itself is the heading.
    """

    start: int
    title: str
    in_text: bool


def heading_line(text: str, start: int = 0) -> tuple[int, str, int] | None:
    """Level and title of the Markdown heading that the line at ``start`` is, and where that line ends."""
    found = _HEADING.match(text, start)
    if found is None:
        return None
    title = found[2].rstrip(" \t")
    words = title.rstrip("#")  # a heading may be closed by such signs
    return len(found[1]), words.rstrip(" \t") if words.endswith((" ", "\t")) else title, found.end()


def is_scene_break(line: str) -> bool:
    """Return whether a line is stars, dashes or the like and nothing else."""
    return _BREAK.fullmatch(line) is not None


def headings(text: str, marks: Iterable[tuple[int, str]]) -> Iterator[Heading]:
    """Yield the headings of ``text`` in order.

    Args:
        text: a text.
        marks: where the words of each chapter begin, in order, and its title.

    A chapter without words of its own at the end of a paragraph has no heading.
    """
    for begin, title in marks:
        first = _SPACE.match(text, begin)
        words = first.end() if first is not None else begin
        start = text.rfind("\n", 0, words) + 1
        if words == len(text) and text[start:].strip():
            continue
        own = words if heading_line(text, words) is not None else start
        if (line := heading_line(text, own)) is not None:
            yield Heading(own, line[1], True)
            continue
        end = text.find("\n", start)
        is_break = not title and is_scene_break(text[start : end if end >= 0 else len(text)])
        yield Heading(start, " ".join(title.split()), is_break)
