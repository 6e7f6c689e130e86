"""HTML pages and EPUB books, in: the text that a reader would see, as blocks.

The parser of the standard library takes tags as they come. Italics and bold come from tags, attributes and
style sheets. Of a book, the pages of the spine are read in their order; where no page has headings, its table
of contents says where chapters begin. Scripts, pictures and tables of contents are left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from srbwriter.formats.blocks import Block, block_of, heading_starts, read_blocks
from srbwriter.formats.documents import CONTENTS, PICTURES, attribute, describe, first, named, text_in
from srbwriter.formats.draft import read_time
from srbwriter.formats.inline import Inline, Words, spaced
from srbwriter.formats.opening import Document, FormatError, NotForUs, decode
from srbwriter.story.draft import StoryDraft

_PAGE = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_PIECE = re.compile(r"\s*<(?:p|div|h[1-6]|section|article|main|center|font|span|em|i|b|strong)\b[^>]*>", re.I)
_HIDDEN = frozenset("script template noscript object iframe svg select textarea".split())
_BLOCKS = frozenset(
    "h1 h2 h3 h4 h5 h6 address article aside blockquote body caption center dd details div dl dt fieldset "
    "figcaption figure footer form header hr html li main menu nav ol p pre section summary table tbody td "
    "tfoot th thead tr title ul".split()
)
_HEADING = re.compile(r"h([1-6])")
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_EMPHASIS = frozenset("em i cite dfn var".split())
_STRONG = frozenset("strong b".split())
_ITALIC = re.compile(r"font-style\s*:\s*(?:(italic|oblique)|normal)", re.I)
_BOLD = re.compile(r"font-weight\s*:\s*(?:(bold|[6-9]00)|normal|[1-5]00)", re.I)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_SIMPLE = re.compile(r"(\*|[a-zA-Z][\w-]*)?((?:\.[\w-]+)*)")
_REFERENCE = ("noteref", "doc-noteref")
_NOTES = ("footnote", "endnote", "rearnote", "doc-footnote", "doc-endnote")


class _Rule(NamedTuple):
    """A rule of a style sheet: its tag and classes, and what it says of italic and bold, if anything."""

    tag: str
    classes: frozenset[str]
    italic: bool | None
    bold: bool | None


def style_rules(sheet: str) -> list[_Rule]:
    """Return the rules of a sheet that set italic or bold; of a selector, what its last step says."""
    found: list[_Rule] = []
    for selectors, body in _RULE.findall(_COMMENT.sub("", sheet)):
        italic, bold = _said(body)
        for selector in selectors.split(",") if (italic, bold) != (None, None) else ():
            step = _SIMPLE.fullmatch(re.split(r"[\s>+~]+", selector.strip())[-1])
            if step and step[0]:
                classes = frozenset(filter(None, step[2].split(".")))
                found.append(_Rule((step[1] or "*").lower(), classes, italic, bold))
    return sorted(found, key=lambda rule: len(rule.classes))  # more classes say it more exactly


def _said(style: str) -> tuple[bool | None, bool | None]:
    italic, bold = _ITALIC.search(style), _BOLD.search(style)
    return italic and italic[1] is not None, bold and bold[1] is not None


def is_html(document: Document) -> bool:
    text = document.text
    return bool(_PAGE.match(text) or (_PIECE.match(text) and "</" in text and not heading_starts(text)))


def read_html(document: Document) -> StoryDraft:
    page = _Page(document)
    blocks = list(page.blocks(document.text, document.name))
    draft = read_blocks(blocks, _one_line(page.title), page.author)
    draft.language = page.language
    return draft


class _Open(NamedTuple):
    """An element that is open: how words look in it, whether white space is exact, and what note it is."""

    tag: str
    look: Inline = Inline("")
    exact: bool = False
    note: str = ""


class _Page(HTMLParser):
    """Follows the tags; knows at every moment how the next words look.

    ``marks`` are titles of chapters by the ids where they begin; "" is the page's own beginning. ``labels``
    are numbers of notes by their ids, over all pages. On a ``plain`` page, headings are paragraphs.
    """

    def __init__(
        self, document: Document, rules: list[_Rule] | None = None, marks: dict[str, str] | None = None,
        labels: dict[str, int] | None = None, plain: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(convert_charrefs=True)
        self._document, self._rules, self._marks = document, rules or [], marks or {}
        self._labels, self._plain = {} if labels is None else labels, plain
        self._open: list[_Open] = []
        self._found: list[Block] = []
        self._block: list[Words] = []  # words of the block that is open
        self._heading = 0  # its level; 0 is a paragraph
        self._item = self._in_title = self._in_style = False  # an item of a list; inside <title> or <style>
        self._hidden, self._depth = "", 0  # the tag in which nothing is shown, and how often it is open
        self._chapter = self._marks.get("", "")  # the title of a chapter that begins with the next words
        self.title = self.author = self.language = ""

    def blocks(self, text: str, name: str) -> Iterator[Block]:
        """Yield what the page shows. Raises FormatError."""
        try:
            self.feed(text)
            self.close()
        except AssertionError as error:  # how the parser refuses some broken declarations
            line, column = self.getpos()
            raise FormatError(name, f"line {line}, column {column + 1}", "HTML") from error
        self._end_block()
        yield from self._found

    # -- what the parser calls ---------------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if self._hidden:
            self._depth += tag == self._hidden
        elif tag in _HIDDEN:
            self._hidden, self._depth = tag, 1
        elif tag in _VOID:
            self._empty_element(tag, given)
        elif tag == "style":
            self._in_style = True
        else:
            self._begin(tag, given)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._depth -= tag == self._hidden
            self._hidden = self._hidden if self._depth else ""
            return
        if tag in ("title", "style"):
            self._in_title = self._in_style = False
        if tag in _BLOCKS:
            self._end_block()
        names = [each.tag for each in self._open]
        if tag in names:  # elements left open inside it end, too
            del self._open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif self._in_style:
            self._rules = [*self._rules, *style_rules(data)]
        elif not self._hidden:
            if {"a", "sup"} <= {each.tag for each in self._open[-3:]} and data.strip().isdigit():
                data = f"[{data.strip()}]"  # a note's number, glued to the word before it
            self._block.append((self._inside.look._replace(text=data), self._inside.exact))

    # -- what becomes of it ------------------------------------------------------------------------

    @property
    def _inside(self) -> _Open:
        return self._open[-1] if self._open else _Open("")

    def _empty_element(self, tag: str, given: dict[str, str]) -> None:
        match tag, given.get("name", "").casefold():
            case "br", _:
                self._block.append((self._inside.look._replace(text="\n"), True))
            case "hr", _:
                self._end_block()
                self._found.append(Block("break", 0, "* * *"))
            case "img", _:
                self._document.tell(PICTURES)
            case "meta", "author":
                self.author = self.author or _one_line(given.get("content", ""))
            case _:
                pass

    def _begin(self, tag: str, given: dict[str, str]) -> None:
        kinds = set(f"{given.get('epub:type', '')} {given.get('role', '')}".split())
        name, heading = given.get("id", ""), _HEADING.fullmatch(tag)
        if tag in _BLOCKS:
            self._end_block()
            self._heading = int(heading[1]) if heading and not self._plain else 0
            self._item = self._item or tag == "li"
        if name and name in self._marks:
            self._chapter = self._marks[name]
        if tag in ("td", "th"):
            self._document.tell("tables were read cell by cell, a paragraph for each")
        elif tag == "html":
            self.language = given.get("lang") or given.get("xml:lang") or ""
        elif tag == "a" and not kinds.isdisjoint(_REFERENCE):
            note = given.get("href", "").partition("#")[2]
            label = self._labels.setdefault(note, len(self._labels) + 1)
            self._block.append((Inline(f"[^{label}]"), True))
            self._hidden, self._depth = "a", 1
            return
        self._in_title = tag == "title" and not self.title
        here = self._inside
        note = name if not kinds.isdisjoint(_NOTES) and name in self._labels else here.note
        if heading:  # only emphasis inside a heading counts
            self._open.append(_Open(tag, Inline(""), here.exact, note))
            return
        italic, bold = here.look.emphasis or tag in _EMPHASIS, here.look.strong or tag in _STRONG
        classes = frozenset(given.get("class", "").split())
        said = [rule[2:] for rule in self._rules if rule.tag in ("*", tag) and rule.classes <= classes]
        for of_italic, of_bold in [*said, _said(given.get("style", ""))]:
            italic = italic if of_italic is None else of_italic
            bold = bold if of_bold is None else of_bold
        self._open.append(_Open(tag, Inline("", italic, bold), here.exact or tag == "pre", note))

    def _end_block(self) -> None:
        parts, self._block = spaced(self._block), []
        heading, self._heading = self._heading, 0
        item, self._item = self._item, False
        text = "".join(part.text for part in parts)
        if not text.strip():
            self._item = item
            return
        title, self._chapter = self._chapter, ""
        note = self._inside.note
        if note:
            parts[0] = parts[0]._replace(text=re.sub(r"^[\[(]?\d+[\])]?[.:]?\s+", "", parts[0].text))
            self._found += block_of("note", parts, self._labels[note])
        elif heading:
            self._found += block_of("heading", parts, heading)
        elif title and _one_line(text).casefold() == title.casefold():
            self._found.append(Block("heading", 1, title))
        else:
            self._found += [Block("heading", 1, title)] if title else []
            self._found += block_of("item" if item else "paragraph", parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# -- EPUB ---------------------------------------------------------------------------------------------

_CONTAINER = "META-INF/container.xml"
_PROTECTION = "META-INF/encryption.xml"
_FONTS_ALONE = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # hide no words
_CURE = "open it in Calibre and convert it to .docx, or export its text from where it was made"
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")
_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_OWN_UUID = re.compile(r"(?:urn:uuid:)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_TITLE_PAGE = re.compile(r"""epub:type\s*=\s*["'][^"']*\b(?:titlepage|halftitlepage|cover)\b""")


def is_epub(document: Document) -> bool:
    return document.mimetype == "application/epub+zip" or _CONTAINER in document.names


def read_epub(document: Document) -> StoryDraft:
    """The story in a book. Raises NotForUs for one that is protected, or not sound."""
    if _PROTECTION in document.names:
        methods = named(document.xml(_PROTECTION, _CURE).iter(), "EncryptionMethod")
        if any(method.get("Algorithm") not in _FONTS_ALONE for method in methods):
            cure = "import the manuscript that it was made from, or a copy without protection"
            raise NotForUs(document.name, "is protected against copying (DRM)", cure)
    files = named(document.xml(_CONTAINER, _CURE).iter(), "rootfile")
    place = unquote(next((file.get("full-path", "") for file in files), ""))
    package, folder = document.xml(place, _CURE), posixpath.dirname(place)
    about = first(package, "metadata")
    said = describe(package if about is None else about)
    title = next((each for each in said.get("title", ()) if each != "Untitled"), "")
    items = {item.get("id", ""): item for item in named(package.iter(), "item")}
    references = (reference.get("idref", "") for reference in named(package.iter(), "itemref"))
    spine = [items[name] for name in dict.fromkeys(references) if name in items]
    pages = {
        _path(folder, item.get("href", "")): text for item in spine if (text := _page(document, folder, item))
    }
    marks: dict[str, dict[str, str]] = {}
    if not any(re.search(r"<h[1-6]\b", text, re.IGNORECASE) for text in pages.values()):
        marks = _contents(document, folder, items.values(), title)
    guide = {
        _path(folder, each.get("href", ""))
        for each in named(package.iter(), "reference")
        if each.get("type") in ("title-page", "cover")
    }
    labels: dict[str, int] = {}
    sheets: dict[str, list[_Rule]] = {}
    blocks: list[Block] = []
    for path, text in pages.items():
        rules: list[_Rule] = []
        for link in re.findall(r"<link\b[^>]*>", text):
            href = re.search(r"""href\s*=\s*["']([^"']+\.css)["']""", link)
            if href and (sheet := _path(posixpath.dirname(path), href[1])) in document.names:
                if sheet not in sheets:
                    sheets[sheet] = style_rules(document.part(sheet, _CURE).decode("utf-8", "replace"))
                rules += sheets[sheet]
        plain = path in guide or bool(_TITLE_PAGE.search(text))
        page = _Page(document, rules, marks.get(path), labels, plain)
        blocks += page.blocks(text, f"{document.name}, {path}")
    if not blocks:
        raise NotForUs(document.name, "is a book without words", "a book of pictures has no text to import")
    draft = read_blocks(blocks, title)
    draft.byline = ", ".join(said.get("creator", ()))
    draft.language = next((tag for tag in said.get("language", ()) if tag != "und"), "")
    metas = named(package.iter(), "meta")
    modified = (text_in(meta) for meta in metas if meta.get("property") == "dcterms:modified")
    draft.modified = read_time(next(modified, None))
    uuids = map(_OWN_UUID.fullmatch, said.get("identifier", ()))
    draft.id = next((own[1] for own in uuids if own is not None), "")
    return draft


def _path(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def _page(document: Document, folder: str, item: Element) -> str:
    """Return the text of a page of the spine; empty for what is none, and a notice says so."""
    path = _path(folder, item.get("href", ""))
    if "nav" in item.get("properties", "").split():
        document.tell(CONTENTS)
    elif item.get("media-type", "") not in _PAGES:
        document.tell(f"{path} was left out; it is no page of text")
    elif path not in document.names:
        document.tell(f"{path} was left out; the book names it and does not hold it")
    else:
        data = document.part(path, _CURE)
        found = _ENCODING.match(data)
        encoding = found[1].decode().lower() if found else ""
        return decode(data, f"{document.name}, {path}", "" if encoding.startswith("utf") else encoding)
    return ""


def _contents(
    document: Document, folder: str, items: Iterable[Element], book: str
) -> dict[str, dict[str, str]]:
    """Return the titles in the table of contents by page and by place in it, from ``nav`` or ``ncx``."""
    found: dict[str, dict[str, str]] = {}
    for item in items:
        path = _path(folder, item.get("href", ""))
        is_nav = "nav" in item.get("properties", "").split()
        if path not in document.names or not (is_nav or item.get("media-type") == "application/x-dtbncx+xml"):
            continue
        for entry in named(document.xml(path, _CURE).iter(), "a" if is_nav else "navPoint"):
            target = entry.get("href", "") if is_nav else attribute(first(entry, "content"), "src")
            title = text_in(entry if is_nav else first(entry, "navLabel"))
            if target and title not in ("", book, "Untitled"):
                page = found.setdefault(_path(posixpath.dirname(path), target), {})
                page.setdefault(target.partition("#")[2], title)
    return found
