"""Word documents and OpenDocument texts, in: the visible text as blocks.

Follows ISO/IEC 29500, strict and transitional, and OpenDocument 1.3. Elements are known by their names in any
namespace. Insertions of tracked changes are text, deletions are not. Footnotes and endnotes become those of
Markdown, comments become notes of the chapter, and a notice says what was left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from xml.etree.ElementTree import Element

from srbwriter.formats.blocks import Block, Kind, block_of, read_blocks
from srbwriter.formats.draft import read_time
from srbwriter.formats.inline import Inline, Words, spaced
from srbwriter.formats.opening import Document, NotForUs
from srbwriter.story.draft import StoryDraft
from srbwriter.story.headings import SCENE_BREAK

TABLES = "tables became lines, with | between the cells"
ITEMS = "items of lists begin with a dash in place of bullet or number"
BOXES = "words in text boxes stand below the paragraph that they hang on"
COMMENTS = "comments became notes on their chapters"
CONTENTS = "the table of contents was left out"
PICTURES = "pictures were left out"
HIDDEN = "hidden or deleted words were left out"
FOOTNOTES = "footnotes stand at the end of their chapters, where [^1] and so on point to them"
_HEADING = re.compile(r"heading ([1-9])$")
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


def below(root: Element | None, *path: str) -> Iterable[Element]:
    """Return what is in the first element on a path of names; nothing where there is none."""
    found = first(root, *path)
    return () if found is None else found


def text_in(element: Element | None) -> str:
    """Return all characters in an element, white space as one space each; empty for none."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def describe(root: Element) -> dict[str, list[str]]:
    """Return the words of all elements below ``root`` by their names."""
    values: dict[str, list[str]] = {}
    for element in root.iter():
        if words := text_in(element):
            values.setdefault(name_of(element), []).append(words)
    return values


class Reader:
    """What readers of documents share: blocks, and what hangs on the paragraph that is read."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._hanging: list[Block] = []  # notes, comments and boxes
        self._notes = 0

    def paragraph(
        self, parts: Sequence[Inline], *, title: bool = False, level: int = 0, item: bool = False
    ) -> Iterator[Block]:
        """Yield a paragraph, or the heading of a level, and what hangs on it."""
        if item:
            self.document.tell(ITEMS)
        kind: Kind = "title" if title else "heading" if level else "item" if item else "paragraph"
        yield from block_of(kind, parts, level or 1)
        hanging, self._hanging = self._hanging, []
        yield from hanging

    def note(self, words: Sequence[Inline]) -> str:
        """Keep the words of a footnote; return its mark in the text."""
        self._notes += 1
        self._hanging += block_of("note", words, self._notes)
        self.document.tell(FOOTNOTES)
        return f"[^{self._notes}]"

    def comment(self, author: str, words: str) -> None:
        if words:
            self._hanging.append(Block("comment", 0, f"{author}: {words}" if author else words))
            self.document.tell(COMMENTS)

    def box(self, blocks: Iterable[Block]) -> None:
        """Keep what a text box holds."""
        found = list(blocks)
        self._hanging += found
        self.document.tell(BOXES)

    def table(self, rows: Iterable[Sequence[Sequence[Inline]]]) -> Iterator[Block]:
        """Yield a table as one paragraph: a line for each row, with ``|`` between the words of its cells."""
        parts: list[Inline] = []
        for cells in rows:
            parts += [Inline("\n")] if parts else []
            for column, words in enumerate(cells):
                parts += [Inline(" | ")] if column else []
                parts += words
        self.document.tell(TABLES)
        yield from self.paragraph(parts)


def _cells(table: Element, row: str, cell: str) -> list[list[Element]]:
    return [list(_inside(each, cell)) for each in _inside(table, row)]


def _inside(element: Iterable[Element], name: str) -> Iterator[Element]:
    """Yield the rows of a table, or the cells of a row, also inside controls and tracked changes."""
    for child in element:
        if name_of(child) == name:
            yield child
        elif name_of(child) not in ("tbl", "tr", "tc", "p", "table", "table-row", "table-cell"):
            yield from _inside(child, name)


def _said(parts: Iterable[Inline]) -> str:
    return "".join(part.text for part in parts).strip()


def _about(document: Document, part: str, cure: str) -> dict[str, str]:
    """Return what a part says of the document, by the names of its elements; nothing where there is none."""
    about = describe(document.xml(part, cure)) if part in document.names else {}
    return {name: words[0] for name, words in about.items()}


# -- Word ---------------------------------------------------------------------------------------------

_DOCX_CURE = "open it in Word or LibreOffice and save it as .docx once more"
_INSIDE = frozenset("hyperlink ins moveTo smartTag fldSimple customXml bdo dir sdtContent".split())
_CHARACTERS = {"tab": "\t", "ptab": "\t", "cr": "\n", "noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
_PRIVATE = range(0xE000, 0xF900)  # characters that mean something in one font alone


def is_docx(document: Document) -> bool:
    return any(name.startswith("word/") for name in document.names)


def read_docx(document: Document) -> StoryDraft:
    """The story in a Word document. Raises NotForUs for one that is not sound."""
    reader = _Word(document)
    said = _about(document, "docProps/core.xml", _DOCX_CURE)
    draft = read_blocks(reader.blocks(reader.body), said.get("title", ""), said.get("creator", ""))
    if reader.pictures:
        document.tell(f"{reader.pictures} picture{'s were' if reader.pictures > 1 else ' was'} left out")
    draft.language = said.get("language", "") or reader.language
    draft.created, draft.modified = read_time(said.get("created")), read_time(said.get("modified"))
    return draft


def _value(element: Element | None) -> str:
    return attribute(element, "val")


def _toggle(properties: Element | None, name: str) -> bool | None:
    found = first(properties, name)
    return None if found is None else _value(found) not in ("0", "false", "off", "none")


class _Word(Reader):
    """Reads the parts of a document; ``blocks`` walks through it in the order in which it is read."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        rels = document.xml("_rels/.rels", _DOCX_CURE)
        main = next((rel for rel in rels if rel.get("Type", "").endswith("/officeDocument")), None)
        path = posixpath.normpath(
            "/" + (main.get("Target", "") if main is not None else "word/document.xml")
        )[1:]
        folder, file = posixpath.split(path)
        root = document.xml(path, _DOCX_CURE)
        body = first(root, "body")
        if body is None:
            raise NotForUs(document.name, "is not sound (it has no body)", _DOCX_CURE)
        self.body = body
        self._parts: dict[str, Element] = {}
        if (name := f"{folder}/_rels/{file}.rels") in document.names:
            for rel in document.xml(name, _DOCX_CURE):
                kind = rel.get("Type", "").rpartition("/")[2]
                target = posixpath.normpath(posixpath.join("/" + folder, rel.get("Target", "")))[1:]
                if kind in ("styles", "footnotes", "endnotes", "comments") and target in document.names:
                    self._parts[kind] = document.xml(target, _DOCX_CURE)
        styles = self._parts.get("styles")
        found = [] if styles is None else list(named(styles, "style"))
        self._styles = {attribute(style, "styleId"): style for style in found}
        usual = (each for each in found if attribute(each, "default") in ("1", "true", "on"))
        self._default = next(
            (attribute(s, "styleId") for s in usual if attribute(s, "type") == "paragraph"), ""
        )
        self.language = _value(first(styles, "docDefaults", "rPrDefault", "rPr", "lang"))
        self._on: dict[tuple[str, str], bool] = {}
        self._drop: list[Inline] = []  # a drop cap, which begins the next paragraph
        self.pictures = 0

    def _chain(self, style: str) -> Iterator[Element]:
        """Yield the style (of paragraphs, if none is named) and those that it is based on."""
        seen = set[str]()
        style = style or self._default
        while style in self._styles and style not in seen:
            seen.add(style)
            yield self._styles[style]
            style = _value(first(self._styles[style], "basedOn"))

    def _level(self, style: str, own: Element | None) -> int:
        """Return which heading a paragraph is by its own properties or its style; 0 for none."""
        for each in (None, *self._chain(style)):
            properties = own if each is None else first(each, "pPr")
            found = None if each is None else _HEADING.match(_value(first(each, "name")).casefold())
            if found:
                return int(found[1])
            outline = _value(first(properties, "outlineLvl"))
            if outline.isascii() and outline.isdigit():
                return (int(outline[:2]) + 1) % 10
        return 0

    def _style_is(self, style: str, toggle: str) -> bool:
        if (style, toggle) not in self._on:
            values = (_toggle(first(each, "rPr"), toggle) for each in self._chain(style))
            self._on[style, toggle] = next((on for on in values if on is not None), False)
        return self._on[style, toggle]

    def blocks(self, element: Iterable[Element]) -> Iterator[Block]:
        for child in element:
            match name_of(child):
                case "p":
                    yield from self._paragraph(child)
                case "tbl":
                    rows = _cells(child, "tr", "tc")
                    if all(len(cells) <= 1 for cells in rows):  # no more than a frame around text
                        for each in chain.from_iterable(rows):
                            yield from self.blocks(each)
                    else:
                        yield from self.table([[self._all_words(each) for each in cells] for cells in rows])
                case "sdt" | "AlternateContent":
                    gallery = _value(first(child, "sdtPr", "docPartObj", "docPartGallery")).casefold()
                    if "table of contents" in gallery:
                        self.document.tell(CONTENTS)
                    else:
                        yield from self.blocks(_chosen(child))
                case name if name in _INSIDE:
                    yield from self.blocks(child)
                case _:
                    pass
        if self._drop:
            drop, self._drop = self._drop, []
            yield from block_of("paragraph", drop)

    def _paragraph(self, element: Element) -> Iterator[Block]:
        own = first(element, "pPr")
        style = _value(first(own, "pStyle"))
        chain_of_styles = list(self._chain(style))
        name = next((_value(first(each, "name")).casefold() for each in chain_of_styles), "")
        level = self._level(style, own)
        parts = list(self._words(element, None if level else style))
        if attribute(first(own, "framePr"), "dropCap") in ("drop", "margin"):
            self._drop += parts
            return
        parts, self._drop = self._drop + parts, []
        numbers = (first(p, "numPr", "numId") for p in (own, *(first(s, "pPr") for s in chain_of_styles)))
        number = next((_value(number) for number in numbers if number is not None), "0")
        if name.startswith("toc "):
            self.document.tell(CONTENTS)
        elif (name == "horizontal line" or first(own, "pBdr", "bottom") is not None) and not _said(parts):
            yield Block("break", 0, SCENE_BREAK)
        elif name in ("author", "subtitle"):
            yield from block_of("author", parts)
        else:
            title = name == "title"
            yield from self.paragraph(parts, title=title, level=level, item=number != "0" and not level)

    def _all_words(self, element: Element) -> list[Inline]:
        """Return the words of all paragraphs in ``element``."""
        parts: list[Inline] = []
        for paragraph in named(element.iter(), "p"):
            parts += [Inline(" ")] if parts else []
            parts += self._words(paragraph, _value(first(paragraph, "pPr", "pStyle")))
        return parts

    def _words(self, element: Iterable[Element], style: str | None) -> Iterator[Inline]:
        """Yield the words in ``element`` of a paragraph of ``style``; None is a heading's."""
        for child in element:
            name = name_of(child)
            if name == "r":
                yield from self._run(child, style)
            elif name in ("sdt", "AlternateContent") or name in _INSIDE:
                yield from self._words(_chosen(child), style)
            elif name in ("oMath", "oMathPara"):
                self.document.tell("formulas became plain characters")
                yield Inline("".join(text.text or "" for text in named(child.iter(), "t")))

    def _run(self, run: Element, style: str | None) -> Iterator[Inline]:
        own = first(run, "rPr")
        if _toggle(own, "vanish"):
            self.document.tell(HIDDEN)
            return
        if own is not None and (_value(first(own, "u")) not in ("none", "") or _toggle(own, "strike")):
            self.document.tell("underlined or struck out words are plain words here")
        look = [self._is(own, toggle, style) for toggle in ("i", "b")]
        for child in run:
            yield from (Inline(text, *look) for text in self._characters(child))

    def _is(self, own: Element | None, toggle: str, style: str | None) -> bool:
        """Whether a run is italic or bold: it says so, or one of its styles does, but not both."""
        said = _toggle(own, toggle)
        if said is not None:
            return said
        name = _value(first(own, "rStyle"))
        of_run = bool(name) and self._style_is(name, toggle)
        return of_run != (style is not None and self._style_is(style, toggle))

    def _characters(self, element: Element) -> Iterator[str]:
        """Yield what an element of a run shows."""
        match name_of(element):
            case "t":
                yield element.text or ""
            case "br":
                yield "" if attribute(element, "type") in ("page", "column") else "\n"
            case "sym":
                yield self._symbol(attribute(element, "char"))
            case "footnoteReference" | "endnoteReference" as kind:
                if (note := self._referred(kind.removesuffix("Reference") + "s", element)) is not None:
                    yield self.note(self._all_words(note))
            case "commentReference":
                if (comment := self._referred("comments", element)) is not None:
                    paragraphs = (self._all_words(each) for each in comment)
                    words = "\n".join(_said(parts) for parts in paragraphs).strip()
                    self.comment(attribute(comment, "author").strip(), words)
            case "drawing" | "pict" | "object":
                if any(attribute(part, "hr") for part in element.iter()):  # a line from side to side
                    yield "* * *"
                    return
                boxes = list(named(element.iter(), "txbxContent"))
                for box in boxes:
                    self.box(self.blocks(box))
                self.pictures += not boxes
            case "ruby":
                base = named(element, "rubyBase")
                yield "".join(t.text or "" for each in base for t in named(each.iter(), "t"))
            case "AlternateContent":
                for child in _chosen(element):
                    yield from self._characters(child)
            case name:
                yield _CHARACTERS.get(name, "")

    def _symbol(self, code: str) -> str:
        number = int(code, 16) if re.fullmatch("[0-9a-fA-F]{1,5}", code) else 0
        if number in _PRIVATE:
            self.document.tell("symbols of a font of their own were left out")
        return chr(number) if number and number not in _PRIVATE else ""

    def _referred(self, kind: str, element: Element) -> Element | None:
        number = attribute(element, "id")
        notes = self._parts.get(kind, ())
        return next((n for n in notes if attribute(n, "id") == number and not attribute(n, "type")), None)


def _chosen(element: Element) -> Iterable[Element]:
    """Return of alternatives that show the same the first, of a control its content; else the element."""
    if name_of(element) == "sdt":
        return below(element, "sdtContent")
    return (
        next(named(element, "Choice", "Fallback"), ()) if name_of(element) == "AlternateContent" else element
    )


# -- OpenDocument -------------------------------------------------------------------------------------

_ODT_CURE = "open it in LibreOffice and save it once more, or as .docx"
_INDEXES = frozenset(
    "table-of-content alphabetical-index bibliography illustration-index table-index object-index "
    "user-index".split()
)
_AROUND = frozenset("section list-header numbered-paragraph text-box table-header-rows".split())
_NO_WORDS = frozenset(
    "tracked-changes sequence-decls variable-decls user-field-decls forms annotation-end script".split()
)


def is_odt(document: Document) -> bool:
    if document.mimetype:
        return document.mimetype.startswith("application/vnd.oasis.opendocument.text")
    return {"content.xml", "META-INF/manifest.xml"} <= document.names


def read_odt(document: Document) -> StoryDraft:
    """The story in an OpenDocument text. Raises NotForUs for one that is encrypted, or not sound."""
    manifest = "META-INF/manifest.xml"
    parts = document.xml(manifest, _ODT_CURE).iter() if manifest in document.names else ()
    if next(named(parts, "encryption-data"), None) is not None:
        raise NotForUs(document.name, "has a password", "save it without one")
    content = document.xml("content.xml", _ODT_CURE)
    styles = [document.xml("styles.xml", _ODT_CURE)] if "styles.xml" in document.names else []
    said = _about(document, "meta.xml", _ODT_CURE)
    reader = _Odt(document, [content, *styles])
    bodies = chain.from_iterable(named(content, "body"))
    blocks = chain.from_iterable(reader.blocks(part) for part in bodies)
    draft = read_blocks(blocks, said.get("title", ""), said.get("initial-creator") or said.get("creator", ""))
    draft.title, draft.language = said.get("title") or draft.title, said.get("language", "")
    draft.created, draft.modified = read_time(said.get("creation-date")), read_time(said.get("date"))
    return draft


class _Odt(Reader):
    """Walks through a document; knows its styles."""

    def __init__(self, document: Document, roots: list[Element]) -> None:
        super().__init__(document)
        self._styles = {
            (attribute(style, "family"), attribute(style, "name")): style
            for root in reversed(roots)
            for style in named(root.iter(), "style")
        }

    def _chain(self, family: str, name: str) -> Iterator[Element]:
        """Yield the style and those that it is based on."""
        seen = set[str]()
        while name not in seen and (style := self._styles.get((family, name))) is not None:
            seen.add(name)
            yield style
            name = attribute(style, "parent-style-name")

    def _look(self, family: str, name: str, above: Inline) -> Inline:
        """Return how words in the style look; ``above`` is the look around them."""
        properties = [each for s in self._chain(family, name) for each in named(s.iter(), "text-properties")]
        italic = next(filter(None, (attribute(each, "font-style") for each in properties)), "")
        bold = next(filter(None, (attribute(each, "font-weight") for each in properties)), "")
        heavy = bold == "bold" or (bold.isdecimal() and int(bold[:4]) >= 600)
        emphasis = italic in ("italic", "oblique") if italic else above.emphasis
        return Inline("", emphasis, heavy if bold else above.strong)

    def blocks(self, element: Iterable[Element], item: bool = False) -> Iterator[Block]:
        """Yield everything in ``element``; the first paragraph of an ``item`` of a list is one."""
        for child in element:
            match name_of(child):
                case "h" | "p" as kind:
                    yield from self._paragraph(child, kind == "h", item)
                    item = False
                case "list":
                    for entry in child:
                        yield from self.blocks(entry, name_of(entry) == "list-item")
                case "table":
                    rows = _cells(child, "table-row", "table-cell")
                    if all(len(cells) <= 1 for cells in rows):  # no more than a frame around text
                        for each in chain.from_iterable(rows):
                            yield from self.blocks(each)
                    else:
                        yield from self.table([[self._all_words(each) for each in cells] for cells in rows])
                case name if name in _INDEXES:
                    self.document.tell(CONTENTS)
                case name if name in _AROUND and attribute(child, "display") == "none":
                    self.document.tell(HIDDEN)
                case name if name in _AROUND:
                    yield from self.blocks(child)
                case "frame":
                    self._frame(child)
                    yield from self.paragraph([])
                case _:
                    pass

    def _paragraph(self, element: Element, heading: bool, item: bool) -> Iterator[Block]:
        style = attribute(element, "style-name")
        look = Inline("") if heading else self._look("paragraph", style, Inline(""))
        parts = spaced(list(self._words(element, look)))
        names = {attribute(each, "name").casefold() for each in self._chain("paragraph", style)}
        names.add(style.casefold())
        level = attribute(element, "outline-level")
        if not _said(parts) and not heading and {"horizontal_20_line", "horizontal line"} & names:
            yield Block("break", 0, SCENE_BREAK)
        depth = (int(level[:2]) if level.isdecimal() else 1) if heading else 0
        yield from self.paragraph(parts, title="title" in names and not heading, level=depth, item=item)

    def _frame(self, frame: Element) -> None:
        boxes = list(named(frame, "text-box"))
        for box in boxes:
            self.box(self.blocks(box))
        if not boxes:
            self.document.tell(PICTURES)

    def _all_words(self, element: Element) -> list[Inline]:
        """Return the words of all paragraphs in ``element``."""
        parts: list[Inline] = []
        for paragraph in named(element.iter(), "p", "h"):
            look = self._look("paragraph", attribute(paragraph, "style-name"), Inline(""))
            parts += [*([Inline(" ")] if parts else []), *spaced(list(self._words(paragraph, look)))]
        return parts

    def _words(self, element: Element, look: Inline) -> Iterator[Words]:
        """Yield the words in ``element`` with their look, and white space as in the file."""
        if element.text:
            yield look._replace(text=element.text), False
        for child in element:
            match name_of(child):
                case "span":
                    inside = self._look("text", attribute(child, "style-name"), look)
                    yield from self._words(child, inside)
                case "s":
                    count = attribute(child, "c")
                    spaces = int(count[:9]) if count.isdecimal() else 1
                    yield look._replace(text=" " * min(spaces, _MOST_SPACES)), True
                case "tab" | "line-break" as kind:
                    yield look._replace(text="\t" if kind == "tab" else "\n"), True
                case "note":
                    if (body := first(child, "note-body")) is not None:
                        yield look._replace(text=self.note(self._all_words(body))), False
                case "annotation":
                    words = "\n".join(text_in(each) for each in named(child, "p", "list")).strip()
                    self.comment(text_in(first(child, "creator")), words)
                case "frame":
                    self._frame(child)
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
