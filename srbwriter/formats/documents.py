"""Word documents and OpenDocument texts, in: the visible text as blocks.

Follows ISO/IEC 29500, strict and transitional, and OpenDocument 1.3. Elements are known by their names in any
namespace, and the two formats share none that would mean different things: one function walks through both.
Insertions of tracked changes are text, deletions are not. Footnotes and endnotes become those of Markdown,
comments become notes of the chapter. Notices say what was left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from srbwriter.formats.blocks import Block, Kind, block_of, read_blocks
from srbwriter.formats.inline import Inline, Words, spaced
from srbwriter.formats.opening import Document, NotForUs
from srbwriter.story.draft import StoryDraft
from srbwriter.story.outline import SCENE_BREAK

CONTENTS = "the table of contents was left out"
PICTURES = "pictures were left out"
HIDDEN = "hidden or deleted words were left out"
HEADING = re.compile(r"heading ([1-9])$")
_KINDS = {
    "title": "title", "author": "author", "subtitle": "author",
    "horizontal line": "rule", "horizontal_20_line": "rule",
}  # fmt: skip
_NO_WORDS = frozenset(
    "del moveFrom Fallback tracked-changes sequence-decls variable-decls user-field-decls forms "
    "annotation-end script".split()
)
_MOST_SPACES = 1000  # that one element may expand to


def name_of(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def attribute(element: Element | None, name: str) -> str:
    """Return an attribute of any namespace; empty for none."""
    if element is None:
        return ""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def named(root: Iterable[Element], *names: str) -> Iterator[Element]:
    """Yield the elements that are called so, of any namespace."""
    return (element for element in root if name_of(element) in names)


def first(root: Element | None, *path: str) -> Element | None:
    """Return the first element on a path of names below ``root``."""
    for name in path:
        root = None if root is None else next(named(root, name), None)
    return root


def text_in(element: Element | None) -> str:
    """Return all characters in an element, white space as one space each; empty for none."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


class Style(NamedTuple):
    """What a style says; None is what it leaves to the one that it is based on."""

    kind: str | None = None  # "title", "author", "rule" or "toc"; "" is none of them
    level: int | None = None  # of a heading, 0 for none
    italic: bool | None = None
    bold: bool | None = None
    item: bool | None = None  # of a list

    def over(self, base: Style) -> Style:
        return base._replace(**{name: own for name, own in self._asdict().items() if own is not None})


class Reader:
    """What readers of documents share: blocks, styles, and what hangs on the paragraph that is read."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.styles: dict[str, tuple[Style, str]] = {}  # own, and the key of the one it is based on
        self._whole: dict[str, Style] = {}
        self._hanging: list[Block] = []  # notes, comments and boxes
        self._notes = 0

    def style(self, key: str) -> Style:
        """Return a style with what it has from those that it is based on."""
        if key not in self._whole:
            own, base = self.styles.get(key, (Style(), ""))
            self._whole[key] = own  # also for one that is based on itself
            self._whole[key] = own.over(self.style(base)) if base else own
        return self._whole[key]

    def paragraph(self, parts: Sequence[Inline], style: Style, item: bool = False) -> Iterator[Block]:
        """Yield a paragraph, or what its style makes of it, and what hangs on it."""
        kind: Kind = "heading" if style.level else "item" if item or style.item else "paragraph"
        if style.kind == "toc":
            self.document.tell(CONTENTS)
        elif style.kind == "rule" and not said(parts):
            yield Block("break", 0, SCENE_BREAK)
        else:
            if style.kind == "title" or style.kind == "author":
                kind = style.kind
            yield from block_of(kind, parts, style.level or 1)
        hanging, self._hanging = self._hanging, []
        yield from hanging

    def note(self, words: Sequence[Inline]) -> str:
        """Keep the words of a footnote; return its mark in the text."""
        self._notes += 1
        self._hanging += block_of("note", words, self._notes)
        return f"[^{self._notes}]"

    def comment(self, author: str, words: str) -> None:
        if words:
            self._hanging.append(Block("comment", 0, f"{author}: {words}" if author else words))

    def box(self, blocks: Iterable[Block]) -> None:
        """Keep what a text box holds."""
        found = list(blocks)  # which takes along what hangs already
        self._hanging += found


class _XmlReader(Reader):
    """Walks through a document; the two formats differ in their paragraphs."""

    _drop: Sequence[Inline] = ()  # a drop cap, which begins the next paragraph

    def read_paragraph(self, element: Element) -> tuple[Style, list[Inline]]:
        """Return what a paragraph is, and its words."""
        raise NotImplementedError

    def blocks(self, element: Iterable[Element], item: bool = False) -> Iterator[Block]:
        """Yield everything in ``element``; the first paragraph of an ``item`` of a list is one."""
        for child in element:
            match name_of(child):
                case "p" | "h":
                    style, parts = self.read_paragraph(child)
                    parts, self._drop = [*self._drop, *parts], ()
                    if attribute(first(child, "pPr", "framePr"), "dropCap") in ("drop", "margin"):
                        self._drop = parts
                    else:
                        yield from self.paragraph(parts, style, item)
                        item = False
                case "list-item":
                    yield from self.blocks(child, True)
                case "frame":
                    self.frame(child)
                    yield from self.paragraph([], Style())
                case name if name == "table-of-content" or name.endswith("-index"):
                    self.document.tell(CONTENTS)
                case _ if attribute(child, "display") == "none":
                    self.document.tell(HIDDEN)
                case name if name not in _NO_WORDS:
                    gallery = attribute(first(child, "sdtPr", "docPartObj", "docPartGallery"), "val")
                    if "table of contents" in gallery.casefold():
                        self.document.tell(CONTENTS)
                    else:
                        yield from self.blocks(child)
                case _:
                    pass
        yield from block_of("paragraph", self._drop)
        self._drop = ()

    def all_words(self, element: Element) -> list[Inline]:
        """Return the words of all paragraphs in ``element``."""
        parts: list[Inline] = []
        for paragraph in named(element.iter(), "p", "h"):
            parts += [*([Inline(" ")] if parts else []), *self.read_paragraph(paragraph)[1]]
        return parts

    def frame(self, frame: Element) -> None:
        """Keep the words of the text boxes in an element; without any it is a picture."""
        boxes = [*named(frame.iter(), "txbxContent"), *named(frame, "text-box")]
        for box in boxes:
            self.box(self.blocks(box))
        if not boxes:
            self.document.tell(PICTURES)


def said(parts: Iterable[Inline]) -> str:
    """Return the words alone."""
    return "".join(part.text for part in parts).strip()


def _read(document: Document, blocks: Iterable[Block], about: str, language: str = "") -> StoryDraft:
    """Make a story of the blocks, with what the part called ``about`` says of the document."""
    parts = list(document.xml_if_any(about).iter())
    told = {name_of(part): words for part in reversed(parts) if (words := text_in(part))}
    author = told.get("initial-creator") or told.get("creator", "")
    draft = read_blocks(blocks, told.get("title", ""), author)
    draft.language = told.get("language") or language
    return draft


# -- Word ---------------------------------------------------------------------------------------------

_CHARACTERS = {"tab": "\t", "ptab": "\t", "cr": "\n", "noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
_PRIVATE = range(0xE000, 0xF900)  # characters that mean something in one font alone


def is_docx(document: Document) -> bool:
    return any(name.startswith("word/") for name in document.names)


def read_docx(document: Document) -> StoryDraft:
    """The story in a Word document. Raises NotForUs for one that is not sound."""
    main = _related(document, "").get("officeDocument", "word/document.xml")
    reader = _Word(document, main)
    return _read(document, reader.blocks(document.xml(main)), "docProps/core.xml", reader.language)


def _related(document: Document, part: str) -> dict[str, str]:
    """Return the names of the parts that a part points to, by kind."""
    folder, file = posixpath.split(part)
    found: dict[str, str] = {}
    for each in document.xml_if_any(posixpath.join(folder, f"_rels/{file}.rels")):
        target = posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))
        found[each.get("Type", "").rpartition("/")[2]] = target[1:]
    return found


def _value(element: Element | None) -> str:
    return attribute(element, "val")


def _toggle(properties: Element | None, name: str) -> bool | None:
    found = first(properties, name)
    return None if found is None else _value(found) not in ("0", "false", "off", "none")


def _said_by(form: Element | None, look: Element | None, name: str | None = None) -> Style:
    """Return what properties of a paragraph and of a run say, of a style or of a paragraph without a name."""
    rule = "rule" if first(form, "pBdr", "bottom") is not None else None
    kind = rule if name is None else "toc" if name.startswith("toc ") else _KINDS.get(name, "")
    heading, outline = HEADING.match(name or ""), _value(first(form, "outlineLvl"))
    level = int(heading[1]) if heading else (int(outline) + 1) % 10 if outline else None
    number = first(form, "numPr", "numId")
    item = None if number is None else _value(number) != "0"
    return Style(kind, level, _toggle(look, "i"), _toggle(look, "b"), item)


class _Word(_XmlReader):
    def __init__(self, document: Document, main: str) -> None:
        super().__init__(document)
        related = _related(document, main)
        kinds = "styles", "footnotes", "endnotes", "comments"
        self._parts = {kind: document.xml_if_any(related.get(kind, "")) for kind in kinds}
        styles, self._default = self._parts["styles"], ""
        for style in named(styles, "style"):
            key, name = attribute(style, "styleId"), _value(first(style, "name")).casefold()
            own = _said_by(first(style, "pPr"), first(style, "rPr"), name)
            self.styles[key] = (own, _value(first(style, "basedOn")))
            if attribute(style, "default") in ("1", "true", "on") and attribute(style, "type") == "paragraph":
                self._default = self._default or key
        self.language = _value(first(styles, "docDefaults", "rPrDefault", "rPr", "lang"))

    def read_paragraph(self, element: Element) -> tuple[Style, list[Inline]]:
        own = first(element, "pPr")
        style = _said_by(own, None).over(self.style(_value(first(own, "pStyle")) or self._default))
        return style, list(self._words(element, Style() if style.level else style))

    def _words(self, element: Iterable[Element], style: Style) -> Iterator[Inline]:
        """Yield the words in ``element`` of a paragraph of ``style``."""
        for child in element:
            name = name_of(child)
            if name == "r":
                yield from self._run(child, style)
            elif name == "oMath":
                yield Inline("".join(text.text or "" for text in named(child.iter(), "t")))
            elif name not in _NO_WORDS:
                yield from self._words(child, style)

    def _run(self, run: Element, style: Style) -> Iterator[Inline]:
        own = first(run, "rPr")
        if _toggle(own, "vanish"):
            self.document.tell(HIDDEN)
            return
        of_run = self.style(_value(first(own, "rStyle")))
        italic, bold = _toggle(own, "i"), _toggle(own, "b")
        # A run says it, or one of its styles does, but not both.
        italic = bool(of_run.italic) != bool(style.italic) if italic is None else italic
        bold = bool(of_run.bold) != bool(style.bold) if bold is None else bold
        for child in run:
            yield from (Inline(text, italic, bold) for text in self._characters(child))

    def _characters(self, element: Element) -> Iterator[str]:
        """Yield what an element of a run shows."""
        match name_of(element):
            case "t":
                yield element.text or ""
            case "br":
                yield "" if attribute(element, "type") in ("page", "column") else "\n"
            case "sym":
                number = int(attribute(element, "char") or "20", 16)
                yield "" if number in _PRIVATE else chr(number)
            case "footnoteReference" | "endnoteReference" as kind:
                if (note := self._referred(kind.removesuffix("Reference") + "s", element)) is not None:
                    yield self.note(self.all_words(note))
            case "commentReference":
                if (comment := self._referred("comments", element)) is not None:
                    words = "\n".join(said(self.all_words(each)) for each in comment).strip()
                    self.comment(attribute(comment, "author").strip(), words)
            case "drawing" | "pict" | "object":
                if any(attribute(part, "hr") for part in element.iter()):  # a line from side to side
                    yield SCENE_BREAK
                else:
                    self.frame(element)
            case "ruby":
                base = named(element, "rubyBase")
                yield "".join(t.text or "" for each in base for t in named(each.iter(), "t"))
            case "AlternateContent" | "Choice":
                for child in element:
                    yield from self._characters(child)
            case name:
                yield _CHARACTERS.get(name, "")

    def _referred(self, kind: str, element: Element) -> Element | None:
        number = attribute(element, "id")
        notes = self._parts[kind]
        return next((n for n in notes if attribute(n, "id") == number and not attribute(n, "type")), None)


# -- OpenDocument -------------------------------------------------------------------------------------


def is_odt(document: Document) -> bool:
    if document.mimetype:
        return document.mimetype.startswith("application/vnd.oasis.opendocument.text")
    return {"content.xml", "META-INF/manifest.xml"} <= document.names


def read_odt(document: Document) -> StoryDraft:
    """The story in an OpenDocument text. Raises NotForUs for one that is encrypted, or not sound."""
    manifest = document.xml_if_any("META-INF/manifest.xml")
    if next(named(manifest.iter(), "encryption-data"), None) is not None:
        raise NotForUs(document.name, "has a password", "save it without one")
    content, reader = document.xml("content.xml"), _Odt(document)
    for root in (document.xml_if_any("styles.xml"), content):
        reader.add_styles(root)
    return _read(document, reader.blocks(named(content, "body")), "meta.xml")


class _Odt(_XmlReader):
    def add_styles(self, root: Element) -> None:
        for style in named(root.iter(), "style"):
            family, name = attribute(style, "family"), attribute(style, "name")
            own, base = list(named(style.iter(), "text-properties")), attribute(style, "parent-style-name")
            slant = next(filter(None, (attribute(each, "font-style") for each in own)), "")
            weight = next(filter(None, (attribute(each, "font-weight") for each in own)), "")
            italic = slant in ("italic", "oblique") if slant else None
            bold = weight in ("bold", "600", "700", "800", "900") if weight else None
            whole = Style(_KINDS.get(name.casefold()), italic=italic, bold=bold)
            self.styles[f"{family} {name}"] = (whole, f"{family} {base}" if base else "")

    def read_paragraph(self, element: Element) -> tuple[Style, list[Inline]]:
        name = attribute(element, "style-name")
        style = self.style(f"paragraph {name}")
        if name_of(element) == "h":
            style = Style(level=int(attribute(element, "outline-level") or 1))
        elif style.kind is None:  # a style of the program itself may not be in the file
            style = style._replace(kind=_KINDS.get(name.casefold()))
        return style, spaced(list(self._words(element, _look(style, Inline("")))))

    def _words(self, element: Element, look: Inline) -> Iterator[Words]:
        """Yield the words in ``element`` with their look, and white space as in the file."""
        if element.text:
            yield look._replace(text=element.text), False
        for child in element:
            match name_of(child):
                case "span":
                    style = self.style(f"text {attribute(child, 'style-name')}")
                    yield from self._words(child, _look(style, look))
                case "s":
                    spaces = int(attribute(child, "c") or 1)
                    yield look._replace(text=" " * min(spaces, _MOST_SPACES)), True
                case "tab" | "line-break" as kind:
                    yield look._replace(text="\t" if kind == "tab" else "\n"), True
                case "note":
                    if (body := first(child, "note-body")) is not None:
                        yield look._replace(text=self.note(self.all_words(body))), False
                case "annotation":
                    words = "\n".join(text_in(each) for each in named(child, "p", "list")).strip()
                    self.comment(text_in(first(child, "creator")), words)
                case "frame":
                    self.frame(child)
                case "ruby":
                    for base in named(child, "ruby-base"):
                        yield from self._words(base, look)
                case "hidden-text" | "hidden-paragraph":
                    self.document.tell(HIDDEN)
                case name if name in _NO_WORDS:
                    pass
                case _:
                    yield from self._words(child, look)
            if child.tail:
                yield look._replace(text=child.tail), False


def _look(style: Style, above: Inline) -> Inline:
    italic = above.emphasis if style.italic is None else style.italic
    return Inline("", italic, above.strong if style.bold is None else style.bold)
