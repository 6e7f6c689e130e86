"""OpenDocument texts (``.odt``), in: headings, paragraphs and emphasis, as LibreOffice and others write them.

Follows OpenDocument 1.3 (OASIS). Insertions of tracked changes are text, deletions are not. Footnotes and
endnotes become Markdown footnotes, and comments become notes. Parts without words (pictures) are left out
with a notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from xml.etree.ElementTree import Element

from srbwriter.story.formats.archive import Archive, local_name, named, text_in
from srbwriter.story.formats.base import Document, Format, NotForUs
from srbwriter.story.formats.build import read_time
from srbwriter.story.formats.inline import Inline
from srbwriter.story.formats.manuscript import Manuscript
from srbwriter.story.formats.webpage import Look, spaced
from srbwriter.story.model import StoryDraft

NAME = "odt"

_MIMETYPE = "application/vnd.oasis.opendocument.text"

_INDEXES = frozenset(
    "table-of-content alphabetical-index bibliography illustration-index table-index object-index "
    "user-index".split()
)
_AROUND = frozenset("section list-header numbered-paragraph text-box table-header-rows".split())
"""Elements around paragraphs whose content is shown."""

_NO_WORDS = frozenset(
    "tracked-changes sequence-decls variable-decls user-field-decls forms annotation-end script".split()
)
_MOST_SPACES = 1000  # most characters that one element may expand to


def matches(document: Document) -> bool:
    if document.mimetype:
        return document.mimetype.startswith(_MIMETYPE)
    return {"content.xml", "META-INF/manifest.xml"} <= document.names


def read(document: Document) -> StoryDraft:
    """The story in a document. Raises :class:`NotForUs` for one that is encrypted, or cannot be opened."""
    cure = "open it in LibreOffice and save it once more, or as .docx"
    archive = Archive(document, "OpenDocument text", cure)
    manifest = "META-INF/manifest.xml"
    if manifest in archive and next(named(archive.xml(manifest), "encryption-data"), None) is not None:
        raise NotForUs(document.name, "has a password", "save it without one")
    content = archive.xml("content.xml")
    roots = [content, *(archive.xml(name) for name in ("styles.xml",) if name in archive)]
    try:
        reader = _Reader(_Styles(roots))
        for body in named(content, "body"):
            for part in body:
                reader.read_blocks(part)
        draft = reader.draft()
    except RecursionError as error:
        raise archive.unsound("content.xml: it is nested too deeply") from error
    if "meta.xml" in archive:
        _describe(draft, archive.xml("meta.xml"))
    return draft


def _describe(draft: StoryDraft, root: Element) -> None:
    values: dict[str, list[str]] = {}
    for element in root.iter():
        if words := text_in(element):
            values.setdefault(local_name(element), []).append(words)

    def first(*names: str) -> str:
        return next((values[name][0] for name in names if name in values), "")

    draft.title = first("title") or draft.title
    draft.byline, draft.language = first("initial-creator", "creator"), first("language")
    draft.created, draft.modified = read_time(first("creation-date")), read_time(first("date"))


def _value(element: Element, name: str) -> str:
    """Return the attribute ``name`` of any namespace."""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


class _Styles:
    """What the styles say of italic and bold, and what they are called."""

    def __init__(self, roots: list[Element]) -> None:
        self._styles = {
            (_value(style, "family"), _value(style, "name")): style
            for root in reversed(roots)
            for style in named(root, "style")
        }

    def _chain(self, family: str, name: str) -> Iterator[Element]:
        """The style and those that it is based on."""
        seen = set[str]()
        while name not in seen and (style := self._styles.get((family, name))) is not None:
            seen.add(name)
            yield style
            name = _value(style, "parent-style-name")

    def look(self, family: str, name: str, above: Look) -> Look:
        """Return the emphasis of words in the style; ``above`` is the style of its parent."""
        italic, bold = "", ""
        for style in self._chain(family, name):
            for properties in named(style, "text-properties"):
                italic = italic or _value(properties, "font-style")
                bold = bold or _value(properties, "font-weight")
        heavy = bold == "bold" or (bold.isdecimal() and int(bold[:4]) >= 600)
        emphasis = italic in ("italic", "oblique") if italic else above.emphasis
        return Look(emphasis, heavy if bold else above.strong)

    def is_title(self, name: str) -> bool:
        """Whether a paragraph's style is the one for the title of the whole."""
        return any(_value(style, "name").casefold() == "title" for style in self._chain("paragraph", name))


class _Reader:
    """Reads the blocks of a document into a manuscript."""

    def __init__(self, styles: _Styles) -> None:
        self._styles = styles
        self._manuscript = Manuscript()
        self._title = ""
        self._notes: list[tuple[str, Element]] = []  # of the paragraph that is read
        self._boxes: list[Element] = []
        self._count = 0

    def draft(self) -> StoryDraft:
        """What was read."""
        draft = self._manuscript.draft()
        draft.title = self._title
        return draft

    # -- blocks ------------------------------------------------------------------------------------

    def read_blocks(self, element: Element, item: bool = False) -> None:
        """Everything in ``element``; the first paragraph of an ``item`` of a list begins with a dash."""
        for child in element:
            match local_name(child):
                case "h" | "p" as kind:
                    self._read_paragraph(child, kind == "h", item)
                    item = False
                case "list":
                    self._manuscript.add_notice(
                        "items of lists begin with a dash in place of bullet or number"
                    )
                    for entry in child:
                        self.read_blocks(entry, local_name(entry) == "list-item")
                case "table":
                    self._read_table(child)
                case name if name in _INDEXES:
                    self._manuscript.add_notice("the table of contents was left out")
                case name if name in _AROUND:
                    self._read_inside(child)
                case "frame":
                    self._read_frame(child)
                    self._read_boxes()
                case _:
                    pass

    def _read_inside(self, element: Element) -> None:
        if _value(element, "display") == "none":
            self._manuscript.add_notice("hidden words were left out")
        else:
            self.read_blocks(element)

    def _read_paragraph(self, element: Element, heading: bool, item: bool) -> None:
        style = _value(element, "style-name")
        look = Look() if heading else self._styles.look("paragraph", style, Look())
        parts = self._words_of(element, look)
        text = "".join(part.text for part in parts)
        if heading:
            level = _value(element, "outline-level")
            self._manuscript.heading(int(level[:2]) if level.isdecimal() else 1, parts)
        elif self._manuscript.empty and self._styles.is_title(style):
            self._title = " ".join(f"{self._title} {text}".split())
        else:
            self._manuscript.paragraph([Inline("- "), *parts] if item and text.strip() else parts)
        notes, self._notes = self._notes, []
        for label, body in notes:
            self._manuscript.footnote(label, self._words_of_all(body, " "))
        self._read_boxes()

    def _read_boxes(self) -> None:
        boxes, self._boxes = self._boxes, []
        for box in boxes:
            self._manuscript.add_notice("words in text boxes stand below the paragraph that they hang on")
            self.read_blocks(box)

    def _read_table(self, table: Element) -> None:
        rows = [
            [cell for cell in row if local_name(cell) == "table-cell"] for row in named(table, "table-row")
        ]
        if all(len(cells) <= 1 for cells in rows):  # no more than a frame around text
            for cells in rows:
                for cell in cells:
                    self.read_blocks(cell)
            return
        self._manuscript.table([[self._words_of_all(cell, " ") for cell in cells] for cells in rows])

    def _read_frame(self, frame: Element) -> None:
        boxes = [child for child in frame if local_name(child) == "text-box"]
        self._boxes += boxes
        if not boxes:
            self._manuscript.add_notice("pictures were left out")

    # -- words -------------------------------------------------------------------------------------

    def _words_of_all(self, element: Element, between: str) -> list[Inline]:
        """The words of all paragraphs in ``element``."""
        parts: list[Inline] = []
        for paragraph in element.iter():
            if local_name(paragraph) in ("p", "h"):
                look = self._styles.look("paragraph", _value(paragraph, "style-name"), Look())
                words = self._words_of(paragraph, look)
                parts += [Inline(between), *words] if parts else words
        return parts

    def _words_of(self, element: Element, look: Look) -> list[Inline]:
        return spaced(list(self._words(element, look)))

    def _words(self, element: Element, look: Look) -> Iterator[tuple[str, Look]]:
        """Return the words in ``element`` with their emphasis, and white space as in the file."""
        if element.text:
            yield element.text, look
        for child in element:
            yield from self._words_of_child(child, look)
            if child.tail:
                yield child.tail, look

    def _words_of_child(self, child: Element, look: Look) -> Iterator[tuple[str, Look]]:
        exact = replace(look, exact=True)
        match local_name(child):
            case "span":
                yield from self._words(child, self._styles.look("text", _value(child, "style-name"), look))
            case "s":
                count = _value(child, "c")
                yield " " * min(int(count[:9]) if count.isdecimal() else 1, _MOST_SPACES), exact
            case "tab":
                yield "\t", exact
            case "line-break":
                yield "\n", exact
            case "note":
                yield self._note(child), look
            case "annotation":
                self._remark(child)
            case "frame":
                self._read_frame(child)
            case "ruby":
                for base in named(child, "ruby-base"):
                    yield from self._words(base, look)
            case "hidden-text" | "hidden-paragraph":
                self._manuscript.add_notice("hidden words were left out")
            case name if name in _NO_WORDS:
                pass
            case _:
                yield from self._words(child, look)

    def _note(self, note: Element) -> str:
        body = next(named(note, "note-body"), None)
        if body is None:
            return ""
        self._count += 1
        self._notes.append((str(self._count), body))
        return f"[^{self._count}]"

    def _remark(self, annotation: Element) -> None:
        words = "\n".join(
            text_in(child) for child in annotation if local_name(child) in ("p", "list")
        ).strip()
        author = text_in(next(named(annotation, "creator"), None))
        if words:
            self._manuscript.remark(f"{author}: {words}" if author else words)
            self._manuscript.add_notice("comments became notes on their chapters")


FORMAT = Format(NAME, "OpenDocument text", ".odt", matches, read)
