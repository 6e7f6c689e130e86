"""Emphasis inside a paragraph: ``*so*`` and ``**so**``, by the rules of CommonMark.

``_so_`` and ``__so__`` are the same, and a backslash before a mark keeps it a character of the text. Nothing
else of Markdown is looked at: brackets, angle brackets and backquotes are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MARKS = re.compile(r"[*_\\]")
_LIKELY_MARKS = re.compile(
    r"(?<!\s)\*|\*(?!\s)"  # stars between spaces are none
    r"|(?<![^\W_])_|_(?![^\W_])"  # nor are underscores inside a word
    r"|\\(?=[!-/:-@\[-`{-~]|\Z)"
)
_NO_MARKS = re.compile(r"(?!)")
_SEEN = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r\f]+")
_INNER = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)


class Inline(NamedTuple):
    """Words of one look."""

    text: str
    emphasis: bool = False
    strong: bool = False


def inlines(text: str) -> list[Inline]:
    """Return the words of a paragraph with their looks, in order, neighbours of one look joined."""
    if not _MARKS.search(text):
        return [Inline(text)] if text else []
    found: list[Inline] = []
    at = emphasis = strong = 0
    # A backslash at the end of a line would be a line break of Markdown; with another white space it is none.
    for token in _parser().parseInline(text.replace("\n", "\f"))[0].children or ():
        length = len(token.markup or token.content)
        match token.type:
            case "em_open" | "em_close":
                emphasis += token.nesting
            case "strong_open" | "strong_close":
                strong += token.nesting
            case _ if length:
                escaped = len(token.content) < length
                words = token.content if escaped else text[at : at + length]
                found.append(Inline(words, emphasis > 0, strong > 0))
            case _:
                pass
        at += length
    return join_inlines(found)


def marked(parts: Iterable[Inline]) -> str:
    """Return a text with marks that reads as ``parts``: the inverse of :func:`inlines`.

    White space at the ends of emphasised words is put outside the marks, as CommonMark requires. Where
    CommonMark cannot express an emphasis, it is removed first from the punctuation at the ends and then from
    the whole; the words are always the same.
    """
    wanted = list(parts)
    ways = ((_NO_MARKS, _SEEN), (_LIKELY_MARKS, _SEEN), (_MARKS, _SEEN), (_MARKS, _INNER))
    for escaped, core in ways:
        wanted = _within(wanted, core)
        if inlines(text := _written(wanted, escaped)) == wanted:
            return text
    return _written([Inline(part.text) for part in wanted], _MARKS)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # only needed where there is a mark

    parser = MarkdownIt("zero").enable(["emphasis", "escape"])
    return parser.disable(["normalize", "text_join"])  # characters keep their places


def join_inlines(parts: Iterable[Inline]) -> list[Inline]:
    """Return ``parts`` without empty ones, neighbours of one look joined."""
    shown = groupby((part for part in parts if part.text), lambda part: part[1:])
    return [Inline("".join(part.text for part in same), *look) for look, same in shown]


def _within(parts: Iterable[Inline], core: re.Pattern[str]) -> list[Inline]:
    """Return ``parts`` with only what matches ``core`` emphasised."""
    found: list[Inline] = []
    for part in join_inlines(parts):
        inner = core.search(part.text)
        start, end = inner.span() if inner else (0, 0)
        inside = part._replace(text=part.text[start:end])
        found += (Inline(part.text[:start]), inside, Inline(part.text[end:]))
    return join_inlines(found)


def _written(parts: Sequence[Inline], escaped: re.Pattern[str], looks: Sequence[int] = (1, 2)) -> str:
    """Write parts inside one mark after the other; ``looks`` are fields of Inline, and lengths of marks."""
    texts: list[str] = []
    at = 0
    while at < len(parts):
        ends = dict.fromkeys(looks, at)
        for look in looks:
            while ends[look] < len(parts) and parts[ends[look]][look]:
                ends[look] += 1
        look = max(looks, key=ends.__getitem__, default=0)  # what lasts longer is closed last
        if look and ends[look] > at:
            others = [other for other in looks if other != look]
            mark = "*" * look
            texts += [mark, _written(parts[at : ends[look]], escaped, others), mark]
            at = ends[look]
        else:
            texts.append(escaped.sub(r"\\\g<0>", parts[at].text))
            at += 1
    return "".join(texts)


Words = tuple[Inline, bool]
"""Words, and whether their white space is exact."""


def spaced(words: Sequence[Words]) -> list[Inline]:
    """Return words as a browser spaces them: white space is one space, and none at the ends of a line."""
    parts: list[Inline] = []
    at_edge = True  # a space here would not be seen
    for part, exact in words:
        text = part.text
        if exact and text == "\n":
            _strip_end(parts, " ")
            text = text if parts else ""
        elif not exact:
            text = _SPACE.sub(" ", text)
            text = text.removeprefix(" ") if at_edge else text
        if text:
            parts.append(part._replace(text=text))
            at_edge = text.endswith((" ", "\n"))
    _strip_end(parts, " \n")
    return parts


def _strip_end(parts: list[Inline], characters: str) -> None:
    while parts and not parts[-1].text.rstrip(characters):
        parts.pop()
    if parts:
        parts[-1] = parts[-1]._replace(text=parts[-1].text.rstrip(characters))
