"""HTML of any origin, read as text: headings, paragraphs, emphasis, line breaks and rules.

Uses the parser of the standard library, which takes tags as they come. What a browser would not show as text
(scripts, styles, pictures) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser

from srbwriter.story.formats.base import Document, Format, FormatError
from srbwriter.story.formats.inline import Inline
from srbwriter.story.formats.manuscript import Manuscript
from srbwriter.story.formats.prose import heading_starts
from srbwriter.story.model import StoryDraft

NAME = "html"

_PAGE = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_PIECE = re.compile(r"\s*<(?:p|div|h[1-6]|section|article|main|center|font|span|em|i|b|strong)\b[^>]*>", re.I)

_HIDDEN = frozenset("script style template noscript object iframe svg select textarea".split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(_HEADINGS) | frozenset(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure "
    "footer form header hr html li main menu nav ol p pre section summary table tbody td tfoot th thead tr "
    "title ul".split()
)
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_EMPHASIS = frozenset("em i cite dfn var".split())
_STRONG = frozenset("strong b".split())
_ITALIC = re.compile(r"font-style\s*:\s*(?:(italic|oblique)|normal)", re.I)
_BOLD = re.compile(r"font-weight\s*:\s*(?:(bold|[6-9]00)|normal|[1-5]00)", re.I)
_SPACE = re.compile(r"[ \t\n\r\f]+")


def matches(document: Document) -> bool:
    if document.kind != "text":
        return False
    text = document.text
    return bool(_PAGE.match(text) or (_PIECE.match(text) and "</" in text and not heading_starts(text)))


def read(document: Document) -> StoryDraft:
    page = _Page(Manuscript())
    page.take(document.text, document.name)
    return page.draft()


def read_part(manuscript: Manuscript, text: str, name: str) -> None:
    """Add what one page of several shows; its title is not the story's. Raises :class:`FormatError`."""
    _Page(manuscript, part=True).take(text, name)


@dataclass(frozen=True, slots=True)
class Look:
    """How words look inside a tag; ``exact`` keeps white space as it is."""

    emphasis: bool = False
    strong: bool = False
    exact: bool = False


class _Page(HTMLParser):
    """Follows the tags; knows at every moment how the next words look."""

    def __init__(self, manuscript: Manuscript, part: bool = False) -> None:
        super().__init__(convert_charrefs=True)
        self._manuscript, self._part = manuscript, part
        self._open: list[tuple[str, Look]] = []
        self._block: list[tuple[str, Look]] = []  # words of the block that is open
        self._heading = 0  # its level; 0 is a paragraph
        self._item = False  # the next paragraph is an item of a list
        self._hidden, self._depth = "", 0  # the tag in which nothing is shown, and how often it is open
        self._title = self._author = self._language = ""
        self._in_title = False

    def take(self, text: str, name: str) -> None:
        """Read a page. Raises :class:`FormatError`."""
        try:
            self.feed(text)
            self.close()
        except AssertionError as error:  # how the parser refuses some broken declarations
            line, column = self.getpos()
            raise FormatError(name, f"line {line}, column {column + 1}", "HTML") from error
        self._end_block()

    def draft(self) -> StoryDraft:
        """What was read."""
        draft = self._manuscript.draft()
        draft.title, draft.byline, draft.language = _one_line(self._title), self._author, self._language
        return draft

    # -- what the parser calls ---------------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if self._hidden:
            self._depth += tag == self._hidden
        elif tag in _HIDDEN:
            self._hidden, self._depth = tag, 1
        elif tag in _VOID:
            self._empty_element(tag, given)
        else:
            self._begin(tag, given)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._depth -= tag == self._hidden
            self._hidden = self._hidden if self._depth else ""
            return
        if tag == "title":
            self._in_title = False
        if tag in _BLOCKS:
            self._end_block()
        names = [name for name, _ in self._open]
        if tag in names:  # elements left open inside it end, too
            del self._open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title += data
        elif not self._hidden:
            self._block.append((data, self._look))

    # -- what becomes of it ------------------------------------------------------------------------

    @property
    def _look(self) -> Look:
        return self._open[-1][1] if self._open else Look()

    def _empty_element(self, tag: str, given: dict[str, str]) -> None:
        match tag, given.get("name", "").casefold():
            case "br", _:
                self._block.append(("\n", replace(self._look, exact=True)))
            case "hr", _:
                self._end_block()
                self._manuscript.paragraph([Inline("* * *")])
            case "img", _:
                self._manuscript.add_notice("pictures were left out")
            case "meta", "author":
                self._author = self._author or _one_line(given.get("content", ""))
            case _:
                pass

    def _begin(self, tag: str, given: dict[str, str]) -> None:
        if tag in _BLOCKS:
            self._end_block()
            self._heading = _HEADINGS.get(tag, 0)
            self._item = self._item or tag == "li"
        if tag in ("td", "th"):
            self._manuscript.add_notice("tables were read cell by cell, a paragraph for each")
        if tag == "html":
            self._language = given.get("lang") or given.get("xml:lang") or ""
        self._in_title = tag == "title" and not self._title
        self._open.append((tag, self._inside(tag, given.get("style", ""))))

    def _inside(self, tag: str, style: str) -> Look:
        look = self._look
        if tag in _HEADINGS:
            look = Look()  # only emphasis inside it counts
        italic, bold = _ITALIC.search(style), _BOLD.search(style)
        return Look(
            italic[1] is not None if italic else look.emphasis or tag in _EMPHASIS,
            bold[1] is not None if bold else look.strong or tag in _STRONG,
            look.exact or tag == "pre",
        )

    def _end_block(self) -> None:
        parts, self._block = spaced(self._block), []
        text = "".join(part.text for part in parts)
        if not text.strip():
            return
        if self._heading:
            says_title = not self._part and self._manuscript.empty
            if not (says_title and _one_line(text) == _one_line(self._title)):
                self._manuscript.heading(self._heading, parts)
        else:
            self._manuscript.paragraph([Inline("- "), *parts] if self._item else parts)
        self._heading, self._item = 0, False


def _one_line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def spaced(words: Sequence[tuple[str, Look]]) -> list[Inline]:
    """Words as a browser spaces them: white space is one space, and none at the ends of a line."""
    parts: list[Inline] = []
    at_edge = True  # a space here would not be seen
    for text, look in words:
        if look.exact and text == "\n":
            _strip_end(parts, " ")
        elif not look.exact:
            text = _SPACE.sub(" ", text)
            text = text.removeprefix(" ") if at_edge else text
        if text:
            parts.append(Inline(text, look.emphasis, look.strong))
            at_edge = text.endswith((" ", "\n"))
    _strip_end(parts, " \n")
    if parts:
        parts[0] = replace(parts[0], text=parts[0].text.lstrip("\n"))
    return parts


def _strip_end(parts: list[Inline], characters: str) -> None:
    while parts and not parts[-1].text.rstrip(characters):
        parts.pop()
    if parts:
        parts[-1] = replace(parts[-1], text=parts[-1].text.rstrip(characters))


FORMAT = Format(NAME, "HTML page", ".html", matches, read, of_text=True)
