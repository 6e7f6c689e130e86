"""Word documents (``.docx``), in: the visible text as chapters, paragraphs and emphasis.

Insertions of tracked changes are text, deletions are not. Footnotes and endnotes become Markdown footnotes;
comments become notes; parts without words (pictures) are left out with a notice.

Opened with python-docx; paragraphs are walked by the elements of ISO/IEC 29500, because python-docx passes
over the words in tracked changes, content controls and text boxes.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from srbwriter.story.formats.base import Document, NotForUs
from srbwriter.story.formats.inline import Inline
from srbwriter.story.formats.manuscript import Manuscript
from srbwriter.story.model import StoryDraft, counted

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from docx.opc.coreprops import CoreProperties

NAME = "docx"

_MOST_UNPACKED = 1 << 30  # bytes of all parts together
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"

_LINE = "{urn:schemas-microsoft-com:office:office}hr"

_INSIDE = frozenset(
    f"{_W}{name}" for name in "hyperlink ins moveTo smartTag fldSimple customXml bdo dir sdtContent".split()
)
"""Elements around runs or paragraphs whose content is shown."""

_CHARACTERS = {
    f"{_W}tab": "\t", f"{_W}ptab": "\t", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "\u2011",
    f"{_W}softHyphen": "\u00ad",
}  # fmt: skip
_PRIVATE = range(0xE000, 0xF900)  # characters that mean something in one font alone
_HEADING = re.compile(r"heading ([1-9])$")
_BROKEN = (
    LookupError, TypeError, ValueError, AttributeError, OSError, RuntimeError, EOFError, SyntaxError,
    OverflowError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What python-docx and what it is made of raise for a file that is not sound."""


def matches(document: Document) -> bool:
    return any(name.startswith("word/") for name in document.names)


def read(document: Document) -> StoryDraft:
    """The story in a document.  Raises :class:`NotForUs` for one that cannot be opened."""
    import docx
    from docx.opc.exceptions import OpcError

    try:
        with zipfile.ZipFile(io.BytesIO(document.data)) as archive:
            if sum(part.file_size for part in archive.infolist()) > _MOST_UNPACKED:
                raise NotForUs(document.name, "unpacks to more than 1 GiB", "export its text alone, as .txt")
            data = _transitional(archive) if _is_strict(archive) else document.data
        word = docx.Document(io.BytesIO(data))
        return _Reader(word).draft()
    except (*_BROKEN, OpcError) as error:
        if isinstance(error, NotForUs):
            raise
        cure = "open it in Word or LibreOffice and save it as .docx once more"
        raise NotForUs(document.name, f"is no sound Word document ({error})", cure) from error


_STRICT = b"http://purl.oclc.org/ooxml/"
_STRICT_NAME = re.compile(rb"http://purl\.oclc\.org/ooxml/([A-Za-z]+)/")
_RENAMED = {b"extendedProperties": b"extended-properties", b"customProperties": b"custom-properties"}


def _is_strict(archive: zipfile.ZipFile) -> bool:
    """Whether the document is of the strict kind of ISO/IEC 29500, which names everything otherwise."""
    return any(_STRICT in archive.read(name) for name in archive.namelist() if name == "_rels/.rels")


def _transitional(archive: zipfile.ZipFile) -> bytes:
    """A strict document with the names of the transitional kind, the only ones that python-docx knows."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in dict.fromkeys(archive.namelist()):
            part = archive.read(name)
            if name.endswith((".xml", ".rels")) and _STRICT in part:
                part = _STRICT_NAME.sub(rb"http://schemas.openxmlformats.org/\1/2006/", part)
                for strict, plain in _RENAMED.items():
                    part = part.replace(b"2006/" + strict, b"2006/" + plain)
                    part = part.replace(b"relationships/" + strict, b"relationships/" + plain)
            copy.writestr(name, part)
    return made.getvalue()


class _Styles:
    """What the document's styles say, by their ids."""

    def __init__(self, root: Any) -> None:
        self._by_id: dict[str, Any] = {style.get(f"{_W}styleId"): style for style in root.iter(f"{_W}style")}
        self._default = next(
            (
                id_
                for id_, s in self._by_id.items()
                if s.get(f"{_W}default") in ("1", "true") and s.get(f"{_W}type") == "paragraph"
            ),
            "",
        )

        self._toggles: dict[tuple[str | None, str], bool] = {}

    def chain(self, style_id: str | None) -> Iterator[Any]:
        """The style (of paragraphs, if none is named) and those it is based on."""
        seen = set[str]()
        here = self._default if style_id is None else style_id
        while here in self._by_id and here not in seen:
            seen.add(here)
            yield self._by_id[here]
            here = _value(self._by_id[here].find(f"{_W}basedOn"))

    def name(self, style_id: str | None) -> str:
        """In lower case, as Word compares them."""
        return next((_value(style.find(f"{_W}name")).casefold() for style in self.chain(style_id)), "")

    def level(self, style_id: str | None, own: Any) -> int:
        """Which heading a paragraph is by its ``own`` properties or its style; 0 for none."""
        if (level := _outline(own)) is not None:
            return level
        for style in self.chain(style_id):
            found = _HEADING.match(_value(style.find(f"{_W}name")).casefold())
            if found:
                return int(found[1])
            if (level := _outline(style.find(f"{_W}pPr"))) is not None:
                return level
        return 0

    def on(self, style_id: str | None, toggle: str) -> bool:
        """Whether the style sets ``w:i`` or ``w:b``."""
        if (style_id, toggle) not in self._toggles:
            properties = (style.find(f"{_W}rPr") for style in self.chain(style_id))
            values = (_toggle(found, toggle) for found in properties if found is not None)
            self._toggles[style_id, toggle] = next((on for on in values if on is not None), False)
        return self._toggles[style_id, toggle]


def _value(element: Any) -> str:
    return "" if element is None else element.get(f"{_W}val", "")


def _outline(properties: Any) -> int | None:
    """The level that properties of a paragraph give: 1 to 9, 0 for body text, None where they say nothing."""
    value = "" if properties is None else _value(properties.find(f"{_W}outlineLvl"))
    return (int(value) + 1) % 10 if len(value) == 1 and value.isascii() and value.isdigit() else None


def _toggle(properties: Any, name: str) -> bool | None:
    found = properties.find(f"{_W}{name}")
    return None if found is None else found.get(f"{_W}val", "true") not in ("0", "false", "off", "none")


def _properties(word: WordDocument) -> CoreProperties:
    """What the document says of itself; python-docx makes up a title and a moment where it says nothing."""
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.coreprops import CoreProperties
    from docx.oxml.coreprops import CT_CoreProperties

    parts = cast(Any, word.part.package).rels.values()
    if any(part.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for part in parts):
        return word.core_properties
    return CoreProperties(CT_CoreProperties.new())


class _Reader:
    """Walks through a document in the order in which it is read."""

    def __init__(self, word: WordDocument) -> None:
        self._word = word
        self._properties = _properties(word)
        self._styles = _Styles(word.styles.element)
        self._manuscript = Manuscript()
        self._title = ""
        self._notes = {kind: self._part(kind) for kind in ("footnotes", "endnotes", "comments")}
        self._noted: list[tuple[str, Any]] = []  # notes pointed to in the paragraph that is being read
        self._boxes: list[Any] = []  # text boxes that hang on it
        self._count = {"footnote": 0, "picture": 0}

    def draft(self) -> StoryDraft:
        properties = self._properties
        self._body(cast(Any, self._word.element).body)
        self._add_notice_of_omissions()
        draft = self._manuscript.draft()
        draft.title = self._title or properties.title.strip()
        draft.byline, draft.language = properties.author.strip(), properties.language or self._language()
        draft.created = properties.created.timestamp() if properties.created else None
        draft.modified = properties.modified.timestamp() if properties.modified else None
        return draft

    def _part(self, kind: str) -> dict[str, Any]:
        """The notes in a part of their own, by their numbers."""
        from docx.oxml.parser import parse_xml

        for relation in self._word.part.rels.values():
            if relation.reltype.endswith(f"/{kind}") and not relation.is_external:
                root: Any = parse_xml(relation.target_part.blob)
                return {note.get(f"{_W}id", ""): note for note in root if note.get(f"{_W}type") is None}
        return {}

    def _language(self) -> str:
        """The language of the document's spelling."""
        styles = cast(Any, self._word.styles.element)
        return _value(styles.find(f".//{_W}docDefaults//{_W}lang"))

    def _add_notice_of_omissions(self) -> None:
        if self._count["picture"]:
            was = "was" if self._count["picture"] == 1 else "were"
            self._manuscript.add_notice(f"{counted(self._count['picture'], 'picture')} {was} left out")
        if self._count["footnote"]:
            notes = "footnotes stand at the end of their chapters, where [^1] and so on point to them"
            self._manuscript.add_notice(notes)

    # -- blocks ------------------------------------------------------------------------------------

    def _body(self, element: Any) -> None:
        for child in element:
            if child.tag == f"{_W}p":
                self._paragraph(child)
            elif child.tag == f"{_W}tbl":
                self._table(child)
            elif child.tag == f"{_W}sdt":
                self._control(child)
            elif child.tag in _INSIDE or child.tag == f"{_MC}AlternateContent":
                self._body(_chosen(child))

    def _control(self, element: Any) -> None:
        gallery = element.find(f"{_W}sdtPr/{_W}docPartObj/{_W}docPartGallery")
        if "table of contents" in _value(gallery).casefold():
            self._manuscript.add_notice("the table of contents was left out")
        elif (content := element.find(f"{_W}sdtContent")) is not None:
            self._body(content)

    def _paragraph(self, element: Any) -> None:
        properties = element.find(f"{_W}pPr")
        style = None if properties is None else _value(properties.find(f"{_W}pStyle")) or None
        name, level = self._styles.name(style), self._styles.level(style, properties)
        parts = list(self._words(element, style if not level else ""))
        text = "".join(part.text for part in parts)
        if name.startswith("toc "):
            self._manuscript.add_notice("the table of contents was left out")
        elif name == "title" and self._manuscript.empty:
            self._title = " ".join(f"{self._title} {text}".split())
        elif level or name == "title":
            self._manuscript.heading(level or 1, parts)
        elif not (name in ("author", "subtitle") and self._is_author(text)):
            self._manuscript.paragraph([*self._bullet(style, properties, text), *parts])
        self._hang_on()

    def _is_author(self, text: str) -> bool:
        """Whether a line below the title says again what the properties say."""
        return self._manuscript.empty and text.strip() == self._properties.author.strip()

    def _bullet(self, style: str | None, own: Any, text: str) -> list[Inline]:
        for properties in [own, *(s.find(f"{_W}pPr") for s in self._styles.chain(style))]:
            number = None if properties is None else properties.find(f"{_W}numPr/{_W}numId")
            if number is not None:
                if _value(number) == "0" or not text.strip():
                    return []
                self._manuscript.add_notice("items of lists begin with a dash in place of bullet or number")
                return [Inline("- ")]
        return []

    def _hang_on(self) -> None:
        """Notes and text boxes of the paragraph that was read last."""
        noted, self._noted = self._noted, []
        boxes, self._boxes = self._boxes, []
        for label, note in noted:
            self._manuscript.footnote(label, list(self._words_of_all(note, " ")))
        for box in boxes:
            self._manuscript.add_notice("words in text boxes stand below the paragraph that they hang on")
            self._body(box)

    def _table(self, element: Any) -> None:
        rows = [
            [cell for cell in row.iter(f"{_W}tc") if _row_of(cell) is row]
            for row in element.iter(f"{_W}tr")
            if _table_of(row) is element
        ]
        if all(len(cells) == 1 for cells in rows):  # no more than a frame around text
            for (cell,) in rows:
                self._body(cell)
            return
        self._manuscript.table([[list(self._words_of_all(cell, " ")) for cell in cells] for cells in rows])
        self._hang_on()

    # -- words -------------------------------------------------------------------------------------

    def _words_of_all(self, element: Any, between: str) -> Iterator[Inline]:
        """The words of all paragraphs in ``element``."""
        for place, paragraph in enumerate(element.iter(f"{_W}p")):
            if place:
                yield Inline(between)
            properties = paragraph.find(f"{_W}pPr")
            style = None if properties is None else _value(properties.find(f"{_W}pStyle")) or None
            yield from self._words(paragraph, style)

    def _words(self, element: Any, style: str | None) -> Iterator[Inline]:
        """Return the words in ``element`` of a paragraph of ``style``."""
        for child in element:
            if child.tag == f"{_W}r":
                yield from self._run(child, style)
            elif child.tag == f"{_W}sdt" or child.tag in _INSIDE:
                yield from self._words(child, style)
            elif child.tag == f"{_MC}AlternateContent":
                yield from self._words(_chosen(child), style)
            elif child.tag.startswith(_M):
                self._manuscript.add_notice("formulas became plain characters")
                yield Inline("".join(text.text or "" for text in child.iter(f"{_M}t")))

    def _run(self, run: Any, style: str | None) -> Iterator[Inline]:
        properties = run.find(f"{_W}rPr")
        look = Inline("")
        if properties is not None and _toggle(properties, "vanish"):
            self._manuscript.add_notice("hidden words were left out")
            return
        look = Inline("", self._is(properties, "i", style), self._is(properties, "b", style))
        if properties is not None and self._marked_otherwise(properties):
            self._manuscript.add_notice("underlined or struck out words are plain words here")
        for child in run:
            yield from (replace(look, text=text) for text in self._characters(child))

    def _is(self, properties: Any, toggle: str, style: str | None) -> bool:
        """Whether a run is italic or bold: it says so, or one of its styles does, but not both."""
        own = None if properties is None else _toggle(properties, toggle)
        if own is not None:
            return own
        name = "" if properties is None else _value(properties.find(f"{_W}rStyle"))
        return (bool(name) and self._styles.on(name, toggle)) != self._styles.on(style, toggle)

    def _marked_otherwise(self, properties: Any) -> bool:
        line = properties.find(f"{_W}u")
        return (
            (line is not None and _value(line) not in ("none", ""))
            or bool(_toggle(properties, "strike"))
            or bool(_toggle(properties, "dstrike"))
        )

    def _characters(self, element: Any) -> Iterator[str]:
        """What an element of a run shows."""
        match element.tag.removeprefix(_W):
            case "t":
                yield element.text or ""
            case "br":
                yield "" if element.get(f"{_W}type") in ("page", "column") else "\n"
            case "sym":
                yield self._symbol(element.get(f"{_W}char", ""))
            case "footnoteReference" | "endnoteReference" as kind:
                yield self._note(kind.removesuffix("Reference") + "s", element.get(f"{_W}id", ""))
            case "commentReference":
                self._comment(element.get(f"{_W}id", ""))
            case "drawing" | "pict" | "object":
                yield self._picture(element)
            case "ruby":
                yield "".join(text.text or "" for text in element.iterfind(f"{_W}rubyBase//{_W}t"))
            case _ if element.tag == f"{_MC}AlternateContent":
                for child in _chosen(element):
                    yield from self._characters(child)
            case _:
                yield _CHARACTERS.get(element.tag, "")

    def _symbol(self, code: str) -> str:
        try:
            number = int(code, 16)
        except ValueError:
            return ""
        if number in _PRIVATE:
            self._manuscript.add_notice("symbols of a font of their own were left out")
            return ""
        return chr(number) if number < 0x110000 else ""

    def _note(self, kind: str, number: str) -> str:
        note = self._notes[kind].get(number)
        if note is None:
            return ""
        self._count["footnote"] += 1
        label = str(self._count["footnote"])
        self._noted.append((label, note))
        return f"[^{label}]"

    def _comment(self, number: str) -> None:
        comment = self._notes["comments"].get(number)
        if comment is not None:
            words = "".join(part.text for part in self._words_of_all(comment, "\n")).strip()
            author = comment.get(f"{_W}author", "").strip()
            self._manuscript.remark(f"{author}: {words}" if author else words)
            self._manuscript.add_notice("comments became notes on their chapters")

    def _picture(self, element: Any) -> str:
        """Words in a text box, a line from side to side, or a picture; only the line is shown here."""
        if any(part.get(_LINE) is not None for part in element.iter()):
            return "* * *"
        boxes = list(element.iter(f"{_W}txbxContent"))
        self._boxes += boxes
        self._count["picture"] += not boxes
        return ""


def _chosen(element: Any) -> Any:
    """Of alternatives that show the same, the first; any other element as it is."""
    if element.tag != f"{_MC}AlternateContent":
        return element
    return next((child for child in element if child.tag in (f"{_MC}Choice", f"{_MC}Fallback")), ())


def _row_of(cell: Any) -> Any:
    return next(cell.iterancestors(f"{_W}tr"), None)


def _table_of(row: Any) -> Any:
    return next(row.iterancestors(f"{_W}tbl"), None)
