"""HTML pages and EPUB books, in: the text that a reader would see, as blocks.

The parser of the standard library takes tags as they come. Italics and bold come from tags, attributes and
style sheets. Of a book, the pages of the spine are read in their order; where no page has headings, its table
of contents says where chapters begin. Scripts, pictures and tables of contents are left out.
"""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from srbwriter.formats.blocks import Block, block_of, heading_starts, read_blocks
from srbwriter.formats.documents import CONTENTS, PICTURES, attribute, first, named, text_in
from srbwriter.formats.inline import Inline, Words, spaced
from srbwriter.formats.opening import Document, NotForUs, decode
from srbwriter.story.draft import StoryDraft
from srbwriter.story.outline import SCENE_BREAK

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
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_EMPHASIS = frozenset("em i cite dfn var".split())
_STRONG = frozenset("strong b".split())
_ITALIC = re.compile(r"font-style\s*:\s*(?:(italic|oblique)|normal)", re.I)
_BOLD = re.compile(r"font-weight\s*:\s*(?:(bold|[6-9]00)|normal|[1-5]00)", re.I)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_SIMPLE = re.compile(r"(\*|[a-zA-Z][\w-]*)?((?:\.[\w-]+)*)")
_REFERENCE = {"noteref", "doc-noteref"}
_NOTES = {"footnote", "endnote", "rearnote", "doc-footnote", "doc-endnote"}


_Rule = tuple[str, frozenset[str], bool | None, bool | None]
"""A rule of a style sheet: its tag and classes, and what it says of italic and bold, if anything."""


def style_rules(sheet: str) -> list[_Rule]:
    """Return the rules of a sheet that set italic or bold; of a selector, what its last step says."""
    found: list[_Rule] = []
    for selectors, body in _RULE.findall(_COMMENT.sub("", sheet)):
        italic, bold = _said(body)
        for selector in selectors.split(",") if (italic, bold) != (None, None) else ():
            step = _SIMPLE.fullmatch(re.split(r"[\s>+~]+", selector.strip())[-1])
            if step and step[0]:
                classes = frozenset(filter(None, step[2].split(".")))
                found.append(((step[1] or "*").lower(), classes, italic, bold))
    return sorted(found, key=lambda rule: len(rule[1]))  # more classes say it more exactly


def _said(style: str) -> tuple[bool | None, bool | None]:
    italic, bold = _ITALIC.search(style), _BOLD.search(style)
    return italic and italic[1] is not None, bold and bold[1] is not None


def is_html(document: Document) -> bool:
    text = document.text
    return bool(_PAGE.match(text) or (_PIECE.match(text) and "</" in text and not heading_starts(text)))


def read_html(document: Document) -> StoryDraft:
    page = _Page(document)
    blocks = page.read(document.text)
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
        self._open = [_Open("")]
        self._found: list[Block] = []
        self._block: list[Words] = []  # words of the block that is open
        self._heading = 0  # its level; 0 is a paragraph
        self._item = False  # whether it is an item of a list
        self._hidden, self._depth = "", 0  # the tag in which nothing is shown, and how often it is open
        self._chapter = self._marks.get("", "")  # the title of a chapter that begins with the next words
        self.title = self.author = self.language = ""

    def read(self, text: str) -> list[Block]:
        """Return what the page shows. Raises AssertionError for some broken declarations."""
        self.feed(text)
        self.close()
        self._end_block()
        return self._found

    # -- what the parser calls ---------------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if self._hidden:
            self._depth += tag == self._hidden
        elif tag in _HIDDEN:
            self._hidden, self._depth = tag, 1
        elif tag == "br":
            self._block.append((self._open[-1].look._replace(text="\n"), True))
        elif tag == "hr":
            self._end_block()
            self._found.append(Block("break", 0, SCENE_BREAK))
        elif tag == "img":
            self._document.tell(PICTURES)
        elif tag == "meta" and given.get("name", "").casefold() == "author":
            self.author = self.author or _one_line(given.get("content", ""))
        elif tag not in _VOID:
            self._begin(tag, given)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._depth -= tag == self._hidden
            self._hidden = self._hidden if self._depth else ""
            return
        if tag in _BLOCKS:
            self._end_block()
        names = [each.tag for each in self._open]
        if tag in names:  # elements left open inside it end, too
            del self._open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        inside = self._open[-1]
        if inside.tag == "title":
            self.title += data
        elif inside.tag == "style":
            self._rules = [*self._rules, *style_rules(data)]
        elif not self._hidden:
            if {"a", "sup"} <= {each.tag for each in self._open[-3:]} and data.strip().isdigit():
                data = f"[{data.strip()}]"  # a note's number, glued to the word before it
            self._block.append((inside.look._replace(text=data), inside.exact))

    # -- what becomes of it ------------------------------------------------------------------------

    def _begin(self, tag: str, given: dict[str, str]) -> None:
        kinds = set(f"{given.get('epub:type', '')} {given.get('role', '')}".split())
        name, here = given.get("id", ""), self._open[-1]
        heading = int(tag[1]) if re.fullmatch("h[1-6]", tag) else 0
        if tag in _BLOCKS:
            self._end_block()
            self._heading = 0 if self._plain else heading
            self._item = self._item or tag == "li"
        self._chapter = self._marks.get(name, self._chapter) if name else self._chapter
        if tag == "html":
            self.language = given.get("lang") or given.get("xml:lang") or ""
        elif tag == "a" and kinds & _REFERENCE:
            note = given.get("href", "").partition("#")[2]
            label = self._labels.setdefault(note, len(self._labels) + 1)
            self._block.append((Inline(f"[^{label}]"), True))
            self._hidden, self._depth = "a", 1
            return
        note = name if kinds & _NOTES and name in self._labels else here.note
        italic, bold = here.look.emphasis or tag in _EMPHASIS, here.look.strong or tag in _STRONG
        classes = frozenset(given.get("class", "").split())
        said = [rule[2:] for rule in self._rules if rule[0] in ("*", tag) and rule[1] <= classes]
        for of_italic, of_bold in [*said, _said(given.get("style", ""))]:
            italic = italic if of_italic is None else of_italic
            bold = bold if of_bold is None else of_bold
        look = Inline("") if heading else Inline("", italic, bold)  # only emphasis inside a heading counts
        self._open.append(_Open(tag, look, here.exact or tag == "pre", note))

    def _end_block(self) -> None:
        parts, self._block = spaced(self._block), []
        heading, self._heading = self._heading, 0
        text = _one_line("".join(part.text for part in parts))
        if not text:
            return
        item, self._item = self._item, False
        title, self._chapter = self._chapter, ""
        if note := self._open[-1].note:
            parts[0] = parts[0]._replace(text=re.sub(r"^[\[(]?\d+[\])]?[.:]?\s+", "", parts[0].text))
            self._found += block_of("note", parts, self._labels[note])
        elif heading:
            self._found += block_of("heading", parts, heading)
        else:
            self._found += [Block("heading", 1, title)] if title else []
            if not title or text.casefold() != title.casefold():
                self._found += block_of("item" if item else "paragraph", parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# -- EPUB ---------------------------------------------------------------------------------------------

_CONTAINER = "META-INF/container.xml"
_FONTS_ALONE = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # hide no words
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")
_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_OWN_UUID = re.compile(r"(?:urn:uuid:)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_TITLE_PAGE = re.compile(r"""epub:type\s*=\s*["'][^"']*\b(?:titlepage|halftitlepage|cover)\b""")
_COVERS = ("title-page", "cover")
_SHEET = re.compile(r"""<link\b[^>]*href\s*=\s*["']([^"']+\.css)["']""")


def is_epub(document: Document) -> bool:
    return document.mimetype == "application/epub+zip" or _CONTAINER in document.names


def read_epub(document: Document) -> StoryDraft:
    """The story in a book. Raises NotForUs for one that is protected, or not sound."""
    methods = named(document.xml_if_any("META-INF/encryption.xml").iter(), "EncryptionMethod")
    if any(method.get("Algorithm") not in _FONTS_ALONE for method in methods):
        cure = "import the manuscript that it was made from, or a copy without protection"
        raise NotForUs(document.name, "is protected against copying (DRM)", cure)
    document.cure = "open it in Calibre and convert it to .docx, or export its text from where it was made"
    container = named(document.xml(_CONTAINER).iter(), "rootfile")
    place = unquote(next((file.get("full-path", "") for file in container), ""))
    package = document.xml(place)

    def told(name: str) -> list[str]:
        return [words for each in named(package.iter(), name) if (words := text_in(each))]

    title = next((each for each in told("title") if each != "Untitled"), "")
    items = {item.get("id", ""): item for item in named(package.iter(), "item")}
    paths = {key: _path(place, item.get("href", "")) for key, item in items.items()}
    spine = dict.fromkeys(reference.get("idref", "") for reference in named(package.iter(), "itemref"))
    pages = {
        paths[key]: text
        for key in spine
        if key in items and (text := _page(document, paths[key], items[key]))
    }
    marks: dict[str, dict[str, str]] = {}
    if not any(re.search(r"<h[1-6]\b", text, re.IGNORECASE) for text in pages.values()):
        for key in items:
            if paths[key] in document.names and _is_contents(items[key]):
                _add_chapters(marks, document, paths[key], title)
    covers = (each for each in named(package.iter(), "reference") if each.get("type") in _COVERS)
    plain = {_path(place, each.get("href", "")) for each in covers}
    labels: dict[str, int] = {}
    blocks: list[Block] = []
    for path, text in pages.items():
        sheets = (sheet for href in _SHEET.findall(text) if (sheet := _path(path, href)) in document.names)
        rules = style_rules("".join(document.part(sheet).decode("utf-8", "replace") for sheet in sheets))
        page = _Page(
            document, rules, marks.get(path), labels, path in plain or bool(_TITLE_PAGE.search(text))
        )
        blocks += page.read(text)
    if not blocks:
        raise NotForUs(document.name, "is a book without words", "a book of pictures has no text to import")
    draft = read_blocks(blocks, title)
    draft.byline = ", ".join(told("creator"))
    draft.language = next((tag for tag in told("language") if tag != "und"), "")
    draft.id = next((own[1] for own in map(_OWN_UUID.fullmatch, told("identifier")) if own), "")
    return draft


def _path(page: str, href: str) -> str:
    """Return the part that a page points to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(href.partition("#")[0])))


def _is_contents(item: Element) -> bool:
    return "nav" in item.get("properties", "").split() or item.get("media-type") == "application/x-dtbncx+xml"


def _page(document: Document, path: str, item: Element) -> str:
    """Return the text of a page of the spine; empty with a notice for any other file."""
    if _is_contents(item):
        document.tell(CONTENTS)
    elif item.get("media-type", "") not in _PAGES or path not in document.names:
        document.tell(f"{path} was left out; it is no page of text")
    else:
        data = document.part(path)
        found = _ENCODING.match(data)
        encoding = found[1].decode().lower() if found else ""
        return decode(data, f"{document.name}, {path}", "" if encoding.startswith("utf") else encoding)
    return ""


def _add_chapters(marks: dict[str, dict[str, str]], document: Document, path: str, book: str) -> None:
    """Add the titles in a table of contents (``nav`` or ``ncx``) by page and by place in it."""
    for entry in named(document.xml(path).iter(), "a", "navPoint"):
        target = entry.get("href") or attribute(first(entry, "content"), "src")
        label = first(entry, "navLabel")
        title = text_in(entry if label is None else label)
        if target and title not in ("", book, "Untitled"):
            page = marks.setdefault(_path(path, target), {})
            page.setdefault(target.partition("#")[2], title)
