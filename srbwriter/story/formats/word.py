"""Word documents (``.docx``), out: the active path as a manuscript, with styles that the writer can change.

Title and author are written at the beginning and into the document's properties; chapters are headings,
emphasis is italic and bold, a scene break is a centred line. Reading is in
:mod:`srbwriter.story.formats.word_reader`. Written with python-docx, which is imported when it is used.
"""

from __future__ import annotations

import io
import re
import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from srbwriter.story.formats import word_reader
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.inline import Inline, inlines
from srbwriter.story.formats.prose import (
    Block,
    Heading,
    Paragraph,
    blocks,
    chapters,
    xml_characters,
    xml_text,
)
from srbwriter.story.formats.word_reader import NAME
from srbwriter.story.languages import language_tag
from srbwriter.story.model import StoryDraft

if TYPE_CHECKING:
    from docx.document import Document as WordDocument

_LONGEST_PROPERTY = 255  # characters, by the standard
_FIRST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes for the same story, whenever it is written
_LATEST = 253_402_300_799  # the end of the year 9999

_FONT, _POINTS, _LINES, _INDENT_INCHES = "Times New Roman", 12, 1.5, 0.3
_HEADING_POINTS = (16, 14, 13, 12, 12, 12)
_TITLE_POINTS, _AUTHOR_POINTS = 22, 14
_TEXT = '<w:t xml:space="preserve">'
_SPECIALS = {"\t": f"</w:t><w:tab/>{_TEXT}", "\n": f"</w:t><w:br/>{_TEXT}", "\r": f"</w:t><w:cr/>{_TEXT}"}
_SPECIAL = re.compile("[\t\n\r]")
_AUTHOR = "Author"  # as pandoc calls it
_FIRST, _FOLLOWING, _BREAK = "First Paragraph", "Body Text", "Scene Break"


def write(draft: StoryDraft) -> bytes:
    """The path as a document."""
    import docx

    word = docx.Document()
    _properties(word, draft)
    _styles(word, language_tag(draft.language) or "")
    page = _Page(word)
    if title := draft.title.strip():
        page.add("Title", title, exact=True)
    if author := draft.byline.strip():
        page.add(_AUTHOR, author, exact=True)
    for chapter in chapters(draft):
        if name := chapter.title.strip():
            page.add(f"Heading {chapter.level}", name)
        for block in blocks(chapter.text):
            page.block(block)
    page.put_down()
    buffer = io.BytesIO()
    word.save(buffer)
    return _same_each_time(buffer.getvalue())


class _Page:
    """Collects paragraphs; the style of each depends on the block before it.

    They are written as XML: python-docx takes a minute for a novel in which much is emphasised.
    """

    def __init__(self, word: WordDocument) -> None:
        self._word = word
        self._ids = {str(style.name): style.style_id for style in word.styles}
        self._texts: list[str] = []
        self._first = True

    def block(self, block: Block) -> None:
        match block:
            case Heading(level, title):
                self.add(f"Heading {level}", title)
            case Paragraph(text):
                self.add(_FIRST if self._first else _FOLLOWING, text)
            case _:
                self.add(_BREAK, block.text, exact=True)

    def add(self, style: str, text: str, *, exact: bool = False) -> None:
        """A paragraph; in an ``exact`` one stars are stars."""
        runs = "".join(_run(part) for part in ([Inline(text)] if exact else inlines(text)))
        self._texts.append(f'<w:p><w:pPr><w:pStyle w:val="{self._ids[style]}"/></w:pPr>{runs}</w:p>')
        self._first = style not in (_FIRST, _FOLLOWING)

    def put_down(self) -> None:
        """Put everything into the document."""
        from docx.oxml.ns import nsdecls

        body = cast(Any, self._word.element).body
        for paragraph in list(_parsed(f"<w:body {nsdecls('w')}>{''.join(self._texts)}</w:body>")):
            body.sectPr.addprevious(paragraph)


def _run(part: Inline) -> str:
    look = "<w:b/>" * part.strong + "<w:i/>" * part.emphasis
    words = _SPECIAL.sub(lambda found: _SPECIALS[found[0]], xml_text(part.text))
    return f"<w:r><w:rPr>{look}</w:rPr>{_TEXT}{words}</w:t></w:r>"


def _properties(word: WordDocument, draft: StoryDraft) -> None:
    properties = word.core_properties
    given = dict.fromkeys(("subject", "keywords", "category", "comments", "content_status"), "")
    given |= {"title": draft.title, "author": draft.byline, "last_modified_by": draft.byline}
    given |= {"language": language_tag(draft.language) or "", "identifier": draft.id}
    for name, words in given.items():
        setattr(properties, name, xml_characters(words)[:_LONGEST_PROPERTY])
    for name, moment in (("created", draft.created), ("modified", draft.modified or draft.created)):
        setattr(properties, name, datetime.fromtimestamp(min(max(moment or 0, 0), _LATEST), UTC))
        if moment is None:
            _drop(cast(Any, properties)._element, f"dcterms:{name}")
    properties.revision = 1


def _styles(word: WordDocument, language: str) -> None:
    """One serif font, headings in black: a manuscript rather than a brochure."""
    from docx.enum.style import WD_STYLE_TYPE
    from docx.enum.text import WD_ALIGN_PARAGRAPH
    from docx.shared import Inches, Pt

    styles: Any = word.styles
    centre = WD_ALIGN_PARAGRAPH.CENTER
    styles.add_style(_AUTHOR, WD_STYLE_TYPE.PARAGRAPH).base_style = styles["Normal"]
    looks = {"Title": _TITLE_POINTS, _AUTHOR: _AUTHOR_POINTS}
    looks |= {f"Heading {level}": points for level, points in enumerate(_HEADING_POINTS, 1)}
    for name, points in looks.items():
        style = styles[name]
        for part in ("w:rPr", "w:pPr"):
            _drop(style.element, part)
        style.font.name, style.font.size, style.font.bold = _FONT, Pt(points), name != _AUTHOR
        form = style.paragraph_format
        form.alignment, form.keep_with_next = centre, True
        form.space_before, form.space_after = Pt(points), Pt(points)
        if name.startswith("Heading"):
            _outline(style.element, int(name[-1]))
    normal = styles["Normal"]
    normal.font.name, normal.font.size = _FONT, Pt(_POINTS)
    normal.paragraph_format.line_spacing, normal.paragraph_format.space_after = _LINES, Pt(0)
    styles[_FOLLOWING].paragraph_format.first_line_indent = Inches(_INDENT_INCHES)
    styles[_FOLLOWING].paragraph_format.space_after = Pt(0)
    first, scene = (styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH) for name in (_FIRST, _BREAK))
    for style in (first, scene):
        style.base_style, style.next_paragraph_style = normal, styles[_FOLLOWING]
        style.quick_style = True
    scene.next_paragraph_style = first
    scene.paragraph_format.alignment = centre
    scene.paragraph_format.space_before = scene.paragraph_format.space_after = Pt(_POINTS)
    if language:
        _set_language(styles.element, language)


def _drop(element: Any, name: str) -> None:
    from docx.oxml.ns import qn

    found = element.find(qn(name))
    if found is not None:
        element.remove(found)


def _outline(element: Any, level: int) -> None:
    """A heading's place in the outline, which navigation goes by."""
    from docx.oxml.ns import nsdecls

    outline = _parsed(f'<w:outlineLvl {nsdecls("w")} w:val="{level - 1}"/>')
    element.get_or_add_pPr().append(outline)


def _parsed(xml: str) -> Any:
    from docx.oxml.parser import parse_xml

    return cast(Any, parse_xml(xml))


def _set_language(styles: Any, language: str) -> None:
    """What spelling is checked by."""
    from docx.oxml.ns import qn

    for lang in styles.iter(qn("w:lang")):
        lang.set(qn("w:val"), language)


def _same_each_time(data: bytes) -> bytes:
    """The same archive without the moment at which it was written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo(name, _FIRST_ZIP_DATE), old.read(name), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


FORMAT = Format(NAME, "Word document (active path)", ".docx", word_reader.matches, word_reader.read, write)
