"""Books, out: Word documents and EPUB 3, of the current path.

A Word document is a manuscript with styles that the writer can change (ISO/IEC 29500); an EPUB has a page for
each chapter (EPUB 3.3, W3C). Chapters are headings, scene breaks centred lines, footnotes real footnotes. The
same story gives the same bytes, whenever it is written.
"""

from __future__ import annotations

import io
import re
import time
import uuid
import zipfile
from collections.abc import Callable, Iterable
from html import escape

from srbwriter.formats.blocks import NOTE, Block, Chapter, chapters, plain_title, xml_characters
from srbwriter.formats.draft import write_time
from srbwriter.formats.inline import Inline, inlines
from srbwriter.story.draft import StoryDraft
from srbwriter.story.languages import language_tag

_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def _archive(parts: Iterable[tuple[str, str]]) -> bytes:
    """Return an archive of named texts; the first is not compressed, as EPUB asks of its mimetype."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for place, (name, text) in enumerate(parts):
            how = zipfile.ZIP_DEFLATED if place else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name, _ZIP_DATE), text.encode("utf-8", "replace"), how)
    return buffer.getvalue()


def _xml(text: str) -> str:
    return escape(xml_characters(text))


# -- Word ---------------------------------------------------------------------------------------------

_SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_RELS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_CORE = "application/vnd.openxmlformats-package.core-properties+xml"
_TYPES = f"""{_XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/word/document.xml" ContentType="{_WORD}.document.main+xml"/>
<Override PartName="/word/styles.xml" ContentType="{_WORD}.styles+xml"/>
<Override PartName="/word/footnotes.xml" ContentType="{_WORD}.footnotes+xml"/>
<Override PartName="/docProps/core.xml" ContentType="{_CORE}"/>
</Types>"""
_PACKAGE_RELS = f"""{_XML}<Relationships xmlns="{_RELS}">
<Relationship Id="rId1" Type="{_OFFICE}/relationships/officeDocument" Target="word/document.xml"/>
<Relationship Id="rId2" Type="{_RELS}/metadata/core-properties" Target="docProps/core.xml"/>
</Relationships>"""
_WORD_RELS = f"""{_XML}<Relationships xmlns="{_RELS}">
<Relationship Id="rId1" Type="{_OFFICE}/relationships/styles" Target="styles.xml"/>
<Relationship Id="rId2" Type="{_OFFICE}/relationships/footnotes" Target="footnotes.xml"/>
</Relationships>"""
_HEADINGS = {f"Heading{level}": points for level, points in enumerate((16, 14, 13, 12, 12, 12), 1)}
_TEXT = '<w:t xml:space="preserve">'
_SPECIALS = {"\t": f"</w:t><w:tab/>{_TEXT}", "\n": f"</w:t><w:br/>{_TEXT}", "\r": f"</w:t><w:br/>{_TEXT}"}
_FIRST, _FOLLOWING, _BREAK = "FirstParagraph", "BodyText", "SceneBreak"
_SEPARATORS = "".join(
    f'<w:footnote w:type="{kind}" w:id="{number}"><w:p><w:r><w:{kind}/></w:r></w:p></w:footnote>'
    for number, kind in ((-1, "separator"), (0, "continuationSeparator"))
)


def write_docx(draft: StoryDraft) -> bytes:
    """The path as a Word document."""
    paragraphs: list[str] = []
    notes: list[str] = []
    first = True

    def add(style: str, parts: Iterable[Inline], labels: dict[str, str]) -> None:
        nonlocal first

        def refer(label: str) -> str:
            number = len(notes) + 1
            words = "".join(_run(part) for part in inlines(labels[label]))
            mark = f"<w:r>{_RAISED}<w:footnoteRef/></w:r><w:r>{_TEXT} </w:t></w:r>"
            notes.append(
                f'<w:footnote w:id="{number}"><w:p><w:pPr><w:pStyle w:val="FootnoteText"/></w:pPr>'
                f"{mark}{words}</w:p></w:footnote>"
            )
            return f'<w:r>{_RAISED}<w:footnoteReference w:id="{number}"/></w:r>'

        runs = "".join(_with_notes(part, labels, _run, refer) for part in parts)
        paragraphs.append(f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>{runs}</w:p>')
        first = style not in (_FIRST, _FOLLOWING)

    for style, words in (("Title", draft.title.strip()), ("Author", draft.byline.strip())):
        if words:
            add(style, [Inline(words)], {})
    for chapter in chapters(draft):
        for block in chapter.blocks:
            match block.kind:
                case "heading":
                    add(f"Heading{block.level}", inlines(block.text), chapter.notes)
                case "break":
                    add(_BREAK, [Inline(block.text)], {})
                case _:
                    add(_FIRST if first else _FOLLOWING, inlines(block.text), chapter.notes)
    page = (
        '<w:sectPr><w:pgSz w:w="12240" w:h="15840"/><w:pgMar w:top="1440" w:right="1440" w:bottom="1440"'
        ' w:left="1440" w:header="720" w:footer="720" w:gutter="0"/></w:sectPr>'
    )
    body = f"<w:body>{''.join(paragraphs)}{page}</w:body>"
    footnotes = f"<w:footnotes {_SPACES}>{_SEPARATORS}{''.join(notes)}</w:footnotes>"
    parts = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _PACKAGE_RELS,
        "docProps/core.xml": _core(draft),
        "word/_rels/document.xml.rels": _WORD_RELS,
        "word/styles.xml": _styles(language_tag(draft.language) or ""),
        "word/footnotes.xml": f"{_XML}{footnotes}",
        "word/document.xml": f"{_XML}<w:document {_SPACES}>{body}</w:document>",
    }
    return _archive(parts.items())


_RAISED = '<w:rPr><w:rStyle w:val="FootnoteReference"/></w:rPr>'


def _run(part: Inline) -> str:
    look = "<w:b/>" * part.strong + "<w:i/>" * part.emphasis
    words = re.sub("[\t\n\r]", lambda found: _SPECIALS[found[0]], _xml(part.text))
    return f"<w:r><w:rPr>{look}</w:rPr>{_TEXT}{words}</w:t></w:r>"


def _with_notes(
    part: Inline, notes: dict[str, str], show: Callable[[Inline], str], refer: Callable[[str], str]
) -> str:
    """Return words as ``show`` writes them, with what ``refer`` writes where a footnote belongs."""
    shown: list[str] = []
    at = 0
    for found in NOTE.finditer(part.text):
        if found[1] in notes:
            before = part.text[at : found.start()]
            shown += [show(part._replace(text=before)) if before else "", refer(found[1])]
            at = found.end()
    rest = part.text[at:]
    return "".join([*shown, show(part._replace(text=rest)) if rest or not shown else ""])


def _core(draft: StoryDraft) -> str:
    """Return the document's properties."""
    modified = draft.modified if draft.modified is not None else draft.created
    moments = "".join(
        f'<dcterms:{name} xsi:type="dcterms:W3CDTF">{write_time(moment)}</dcterms:{name}>'
        for name, moment in (("created", draft.created), ("modified", modified))
        if moment is not None
    )
    spaces = (
        'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
        ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    )
    said = (
        ("title", draft.title), ("creator", draft.byline), ("identifier", draft.id),
        ("language", language_tag(draft.language) or ""),
    )  # fmt: skip
    words = "".join(f"<dc:{name}>{_xml(value[:255])}</dc:{name}>" for name, value in said if value)
    return f"{_XML}<cp:coreProperties {spaces}>{words}{moments}</cp:coreProperties>"


def _styles(language: str) -> str:
    """Return one serif font, headings in black: a manuscript rather than a brochure."""
    lang = f'<w:lang w:val="{language}"/>' if language else ""
    line, rule, around = "w:line", 'w:lineRule="auto"', 'w:before="240" w:after="240"'
    fonts = '<w:rFonts w:ascii="Times New Roman" w:hAnsi="Times New Roman" w:cs="Times New Roman"/>'
    styles = [
        f'<w:docDefaults><w:rPrDefault><w:rPr>{fonts}<w:sz w:val="24"/><w:szCs w:val="24"/>{lang}</w:rPr>'
        '</w:rPrDefault><w:pPrDefault><w:pPr><w:spacing w:after="0" w:line="360" w:lineRule="auto"/></w:pPr>'
        "</w:pPrDefault></w:docDefaults>",
        '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/><w:qFormat/>'
        "</w:style>",
        '<w:style w:type="character" w:styleId="FootnoteReference"><w:name w:val="footnote reference"/>'
        '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>',
        _style("FootnoteText", "footnote text", f'<w:spacing {line}="240" {rule}/>', '<w:sz w:val="20"/>'),
        _style(_FIRST, "First Paragraph", "", following=_FOLLOWING),
        _style(_FOLLOWING, "Body Text", '<w:ind w:firstLine="432"/>'),
        _style(_BREAK, "Scene Break", f'<w:spacing {around}/><w:jc w:val="center"/>', "", _FIRST),
    ]
    for name, points in {"Title": 22, "Author": 14, **_HEADINGS}.items():
        level = f'<w:outlineLvl w:val="{int(name[-1]) - 1}"/>' if name in _HEADINGS else ""
        space = f'<w:spacing w:before="{points * 20}" w:after="{points * 20}"/>'
        form = f'<w:keepNext/>{space}<w:jc w:val="center"/>{level}'
        look = f'{"" if name == "Author" else "<w:b/>"}<w:sz w:val="{2 * points}"/>'
        title = f"heading {name[-1]}" if name in _HEADINGS else name
        styles.append(_style(name, title, form, look, _FIRST))
    return f"{_XML}<w:styles {_SPACES}>{''.join(styles)}</w:styles>"


def _style(name: str, title: str, form: str, look: str = "", following: str = "") -> str:
    after = f'<w:next w:val="{following}"/>' if following else ""
    return (
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{title}"/><w:basedOn w:val="Normal"/>'
        f"{after}<w:qFormat/><w:pPr>{form}</w:pPr><w:rPr>{look}</w:rPr></w:style>"
    )


# -- EPUB ---------------------------------------------------------------------------------------------

_CONTAINER = """<?xml version="1.0" encoding="utf-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""
_SHEET = """body { line-height: 1.5; margin: 0 5%; }
h1, h2, h3, h4, h5, h6 { margin: 2em 0 1em; text-align: center; }
p { margin: 0; text-indent: 1.5em; }
h1 + p, h2 + p, h3 + p, h4 + p, h5 + p, h6 + p, hr + p { text-indent: 0; }
hr { border: 0; height: 1em; margin: 1em 0; text-align: center; }
hr::before { content: "* * *"; }
"""


def write_epub(draft: StoryDraft) -> bytes:
    """The path as a book; its identifier is the story's own, so that a reader replaces an earlier edition."""
    parts = chapters(draft)
    title, language = _xml(draft.title.strip() or "Untitled"), language_tag(draft.language) or "und"
    files = [f"chapter-{number:04}.xhtml" for number in range(1, len(parts) + 1)]
    try:
        identifier = str(uuid.UUID(draft.id))
    except ValueError:  # for one without, the same for the same beginning of the same story
        first_made = f"{draft.title}\n{draft.byline}\n{draft.created}"
        identifier = str(uuid.uuid5(uuid.NAMESPACE_URL, first_made.encode("utf-8", "replace").decode()))
    moment = next((at for at in (draft.modified, draft.created) if at is not None), time.time())
    creator = f"<dc:creator>{_xml(draft.byline)}</dc:creator>\n" if draft.byline.strip() else ""
    page = 'media-type="application/xhtml+xml"'
    items = "".join(f'<item id="c{number}" href="{file}" {page}/>\n' for number, file in enumerate(files, 1))
    spine = "".join(f'<itemref idref="c{number}"/>\n' for number in range(1, len(files) + 1))
    package = f"""<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="{language}">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{identifier}</dc:identifier>
<dc:title>{title}</dc:title>
<dc:language>{language}</dc:language>
{creator}<meta property="dcterms:modified">{write_time(moment)}</meta>
</metadata>
<manifest>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="style" href="style.css" media-type="text/css"/>
{items}</manifest>
<spine>
{spine}</spine>
</package>
"""
    links = "".join(_nav_entry(file, part, title) for file, part in zip(files, parts, strict=True))
    contents = f'<nav epub:type="toc"><h1>{title}</h1>\n<ol>\n{links}</ol></nav>'
    pages = ((f"EPUB/{file}", _page(part, title, language)) for file, part in zip(files, parts, strict=True))
    files_of_book = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": _CONTAINER,
        "EPUB/package.opf": package,
        "EPUB/nav.xhtml": _xhtml(title, language, contents),
        "EPUB/style.css": _SHEET,
    }
    return _archive([*files_of_book.items(), *pages])


def _nav_entry(file: str, part: Chapter, title: str) -> str:
    """Return a chapter's line in the table of contents, with its sections below it."""
    below = "".join(
        f'<li><a href="{file}#s{place}">{_xml(plain_title(block.text))}</a></li>\n'
        for place, block in enumerate(part.blocks)
        if place and block.kind == "heading"
    )
    name = _xml(plain_title(part.title)) or title
    return f'<li><a href="{file}">{name}</a>{f"<ol>{below}</ol>" if below else ""}</li>\n'


def _page(part: Chapter, title: str, language: str) -> str:
    used: list[str] = []

    def refer(label: str) -> str:
        used.append(label)
        return f'<a epub:type="noteref" href="#note-{len(used)}">{len(used)}</a>'

    def xhtml(text: str) -> str:
        return "".join(_with_notes(inline, part.notes, _tagged, refer) for inline in inlines(text))

    body = [_element(place, block, xhtml) for place, block in enumerate(part.blocks)]
    body += [
        f'<aside epub:type="footnote" id="note-{number}"><p>{xhtml(part.notes[label])}</p></aside>'
        for number, label in enumerate(list(used), 1)
    ]
    section = "\n".join(['<section epub:type="chapter">', *body, "</section>"])
    return _xhtml(_xml(plain_title(part.title)) or title, language, section)


def _element(place: int, block: Block, xhtml: Callable[[str], str]) -> str:
    match block.kind:
        case "heading":
            level = max(block.level, 2) if place else 1  # the chapter's own title is the first
            return f'<h{level} id="s{place}">{xhtml(block.text)}</h{level}>'
        case "break":
            return "<hr/>"
        case _:
            return f"<p>{xhtml(block.text)}</p>"


def _tagged(part: Inline) -> str:
    words = _xml(part.text).replace("\n", "<br/>\n")
    for tag, on in (("em", part.emphasis), ("strong", part.strong)):
        words = f"<{tag}>{words}</{tag}>" if on else words
    return words


def _xhtml(title: str, language: str, body: str) -> str:
    return f"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" xml:lang="{language}" \
lang="{language}">
<head>
<meta charset="utf-8"/>
<title>{title}</title>
<link rel="stylesheet" type="text/css" href="style.css"/>
</head>
<body>
{body}
</body>
</html>
"""
