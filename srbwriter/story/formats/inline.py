"""Emphasis inside a paragraph: ``*so*`` and ``**so**``, by the rules of CommonMark.

``_so_`` and ``__so__`` are the same, and a backslash before a mark keeps it a character of the text. Nothing
else of Markdown is looked at: brackets, angle brackets and backquotes are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, islice, takewhile
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
_CERTAIN = re.compile(r"(?:[^*]|(?<![^ \n])(\*\*?)[^\W_](?:[^*]*[^\W_])?\1(?![^ \n.,;:!?]))*")
"""Emphasised words between spaces: CommonMark reads such a text as it was meant, so it need not be parsed."""
_SEEN = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_INNER = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Inline:
    """Words of one look."""

    text: str
    emphasis: bool = False
    strong: bool = False

    @property
    def look(self) -> tuple[bool, bool]:
        """Emphasis and strong."""
        return self.emphasis, self.strong


def inlines(text: str) -> list[Inline]:
    """The words of a paragraph with their looks, in order, neighbours of one look joined."""
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
    assert at == len(text), "every character of the text belongs to a token"
    return join_inlines(found)


def plain(text: str) -> str:
    """The words alone."""
    return "".join(part.text for part in inlines(text))


class Marked(NamedTuple):
    """A text with marks, and whether they say all of the emphasis that there was."""

    text: str
    complete: bool


def marked(parts: Iterable[Inline]) -> Marked:
    """The inverse of :func:`inlines`: text that reads as ``parts``.

    White space at the ends of emphasised words is put outside the marks, as CommonMark requires. Where
    CommonMark cannot express an emphasis, it is removed first from the punctuation at the ends and then from
    the whole; the words are always the same.
    """
    wanted = _within(join_inlines(parts), _SEEN)
    if not any(_MARKS.search(part.text) for part in wanted) and _CERTAIN.fullmatch(
        text := _written(wanted, _NO_MARKS)
    ):
        return Marked(text, True)
    for escaped in (_NO_MARKS, _LIKELY_MARKS, _MARKS):
        if inlines(text := _written(wanted, escaped)) == wanted:
            return Marked(text, True)
    wanted = _within(wanted, _INNER)
    if inlines(text := _written(wanted, _MARKS)) == wanted:
        return Marked(text, True)
    return Marked(_written([Inline(part.text) for part in wanted], _MARKS), False)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # only needed where there is a mark

    parser = MarkdownIt("zero").enable(["emphasis", "escape"])
    return parser.disable(["normalize", "text_join"])  # characters keep their places


def join_inlines(parts: Iterable[Inline]) -> list[Inline]:
    """Return ``parts`` without empty ones, neighbours of one look joined."""
    shown = (part for part in parts if part.text)
    return [
        Inline("".join(part.text for part in same), *look)
        for look, same in groupby(shown, lambda part: part.look)
    ]


def _within(parts: Iterable[Inline], core: re.Pattern[str]) -> list[Inline]:
    """``parts`` with only what matches ``core`` emphasised."""
    found: list[Inline] = []
    for part in parts:
        if not (part.emphasis or part.strong):
            found.append(part)
            continue
        inner = core.search(part.text)
        start, end = inner.span() if inner else (0, 0)
        found.append(Inline(part.text[:start]))
        found.append(Inline(part.text[start:end], part.emphasis, part.strong))
        found.append(Inline(part.text[end:]))
    return join_inlines(found)


def _written(parts: Sequence[Inline], escaped: re.Pattern[str]) -> str:
    texts: list[str] = []
    open_marks: list[str] = []
    for index, part in enumerate([*parts, Inline("")]):
        wanted = _marks(part)
        while not set(open_marks) <= wanted:
            texts.append(open_marks.pop())
        missing = sorted(wanted.difference(open_marks))
        if len(missing) > 1 and _lasting(parts, index, missing[0]) < _lasting(parts, index, missing[1]):
            missing.reverse()  # what lasts longer is opened first, so that it is closed last
        texts += missing
        open_marks += missing
        texts.append(escaped.sub(r"\\\g<0>", part.text))
    return "".join(texts)


def _marks(part: Inline) -> set[str]:
    return {mark for mark, on in (("*", part.emphasis), ("**", part.strong)) if on}


def _lasting(parts: Sequence[Inline], index: int, mark: str) -> int:
    return sum(1 for _ in takewhile(lambda part: mark in _marks(part), islice(parts, index, None)))
