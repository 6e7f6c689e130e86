"""Books, out: Word documents and EPUB 3, of the current path.

A Word document is a manuscript with styles that the writer can change (ISO/IEC 29500); an EPUB has a page for
each chapter (EPUB 3.3, W3C). Chapters are headings, scene breaks centred lines, footnotes real footnotes.
"""

from __future__ import annotations

import io
import re
import uuid
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape

from srbwriter.formats.blocks import NOTE, BookChapter, chapters, plain_title
from srbwriter.formats.inline import Inline, inlines
from srbwriter.story.draft import StoryDraft, language_tag

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def _archive(parts: dict[str, str]) -> bytes:
    """Return an archive of named texts; the first is not compressed, as EPUB asks of its mimetype."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for place, (name, text) in enumerate(parts.items()):
            how = zipfile.ZIP_DEFLATED if place else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name, _ZIP_DATE), text.encode("utf-8", "replace"), how)
    return buffer.getvalue()


def _xml(text: str) -> str:
    return escape(_NOT_IN_XML.sub("\ufffd", text))


# -- Word ---------------------------------------------------------------------------------------------

_SPACES = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
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
_TEXT = '<w:t xml:space="preserve">'
_SPECIALS = {"\t": f"</w:t><w:tab/>{_TEXT}", "\n": f"</w:t><w:br/>{_TEXT}", "\r": f"</w:t><w:br/>{_TEXT}"}
_FIRST, _FOLLOWING, _BREAK = "FirstParagraph", "BodyText", "SceneBreak"
_RAISED = '<w:rPr><w:rStyle w:val="FootnoteReference"/></w:rPr>'
_LETTER = (
    '<w:sectPr><w:pgSz w:w="12240" w:h="15840"/><w:pgMar w:top="1440" w:right="1440" w:bottom="1440"'
    ' w:left="1440" w:header="720" w:footer="720" w:gutter="0"/></w:sectPr>'
)
_SEPARATORS = "".join(
    f'<w:footnote w:type="{kind}" w:id="{number}"><w:p><w:r><w:{kind}/></w:r></w:p></w:footnote>'
    for number, kind in ((-1, "separator"), (0, "continuationSeparator"))
)


def write_docx(draft: StoryDraft) -> bytes:
    """The path as a Word document."""
    paragraphs: list[str] = []
    notes: list[str] = []

    def refer(words: str) -> str:
        """Write a footnote; return what points to it."""
        number = len(notes) + 1
        mark = f"<w:r>{_RAISED}<w:footnoteRef/></w:r><w:r>{_TEXT} </w:t></w:r>"
        form = '<w:pPr><w:pStyle w:val="FootnoteText"/></w:pPr>'
        runs = "".join(map(_run, inlines(words)))
        notes.append(f'<w:footnote w:id="{number}"><w:p>{form}{mark}{runs}</w:p></w:footnote>')
        return f'<w:r>{_RAISED}<w:footnoteReference w:id="{number}"/></w:r>'

    def add(style: str, runs: str) -> None:
        paragraphs.append(f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>{runs}</w:p>')

    for style, words in (("Title", draft.title.strip()), ("Author", draft.byline.strip())):
        if words:
            add(style, _run(Inline(words)))
    style = _FIRST
    for chapter in chapters(draft):
        for block in chapter.blocks:
            if block.kind == "break":
                add(_BREAK, _run(Inline(block.text)))
            else:
                runs = _with_notes(block.text, chapter.notes, _run, refer)
                add(f"Heading{block.level}" if block.kind == "heading" else style, runs)
            style = _FIRST if block.kind in ("heading", "break") else _FOLLOWING
    body = f"<w:body>{''.join(paragraphs)}{_LETTER}</w:body>"
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
    return _archive(parts)


def _run(part: Inline) -> str:
    look = "<w:b/>" * part.strong + "<w:i/>" * part.emphasis
    words = re.sub("[\t\n\r]", lambda found: _SPECIALS[found[0]], _xml(part.text))
    return f"<w:r><w:rPr>{look}</w:rPr>{_TEXT}{words}</w:t></w:r>"


def _with_notes(
    text: str, notes: dict[str, str], show: Callable[[Inline], str], refer: Callable[[str], str]
) -> str:
    """Return a block as ``show`` writes its words; ``refer`` makes of a footnote what points to it."""
    shown: list[str] = []
    for part in inlines(text):
        at = 0
        for found in NOTE.finditer(part.text):
            if found[1] in notes:
                before = part._replace(text=part.text[at : found.start()])
                shown += [show(before) if before.text else "", refer(notes[found[1]])]
                at = found.end()
        shown += [show(part._replace(text=part.text[at:]))] if part.text[at:] else []
    return "".join(shown)


def _core(draft: StoryDraft) -> str:
    """Return the document's properties."""
    spaces = (
        'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
    )
    said = {
        "title": draft.title, "creator": draft.byline, "identifier": draft.id,
        "language": language_tag(draft.language) or "",
    }  # fmt: skip
    words = "".join(f"<dc:{name}>{_xml(value[:255])}</dc:{name}>" for name, value in said.items() if value)
    return f"{_XML}<cp:coreProperties {spaces}>{words}</cp:coreProperties>"


def _styles(language: str) -> str:
    """Return one serif font, headings in black: a manuscript rather than a brochure."""
    lang = f'<w:lang w:val="{language}"/>' if language else ""
    fonts = '<w:rFonts w:ascii="Times New Roman" w:hAnsi="Times New Roman" w:cs="Times New Roman"/>'
    spacing = '<w:spacing w:after="0" w:line="360" w:lineRule="auto"/>'
    centred = '<w:spacing w:before="240" w:after="240"/><w:jc w:val="center"/>'
    styles = [
        f'<w:docDefaults><w:rPrDefault><w:rPr>{fonts}<w:sz w:val="24"/><w:szCs w:val="24"/>{lang}</w:rPr>'
        f"</w:rPrDefault><w:pPrDefault><w:pPr>{spacing}</w:pPr></w:pPrDefault></w:docDefaults>",
        '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/><w:qFormat/>'
        "</w:style>",
        '<w:style w:type="character" w:styleId="FootnoteReference"><w:name w:val="footnote reference"/>'
        '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>',
        _style("FootnoteText", "footnote text", '<w:spacing w:line="240"/>', '<w:sz w:val="20"/>'),
        _style(_FIRST, "First Paragraph", "", following=_FOLLOWING),
        _style(_FOLLOWING, "Body Text", '<w:ind w:firstLine="432"/>'),
        _style(_BREAK, "Scene Break", centred, "", _FIRST),
        _style("Author", "Author", centred, '<w:sz w:val="28"/>', _FIRST),
        _style("Title", "Title", centred, '<w:b/><w:sz w:val="44"/>', _FIRST),
    ]
    for level, points in enumerate((16, 14, 13, 12, 12, 12)):
        form = f'<w:keepNext/>{centred}<w:outlineLvl w:val="{level}"/>'
        look = f'<w:b/><w:sz w:val="{2 * points}"/>'
        styles.append(_style(f"Heading{level + 1}", f"heading {level + 1}", form, look, _FIRST))
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
    identifier = _xml(draft.id) or uuid.uuid5(uuid.NAMESPACE_URL, f"{title}\n{_xml(draft.byline)}")
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
{creator}<meta property="dcterms:modified">{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}</meta>
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
    archive = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": _CONTAINER,
        "EPUB/package.opf": package,
        "EPUB/nav.xhtml": _xhtml(title, language, contents),
        "EPUB/style.css": _SHEET,
    }
    for file, part in zip(files, parts, strict=True):
        archive[f"EPUB/{file}"] = _page(part, title, language)
    return _archive(archive)


def _nav_entry(file: str, part: BookChapter, title: str) -> str:
    """Return a chapter's line in the table of contents, with its sections below it."""
    below = "".join(
        f'<li><a href="{file}#s{place}">{_xml(plain_title(block.text))}</a></li>\n'
        for place, block in enumerate(part.blocks)
        if place and block.kind == "heading"
    )
    name = _xml(plain_title(part.title)) or title
    return f'<li><a href="{file}">{name}</a>{f"<ol>{below}</ol>" if below else ""}</li>\n'


def _page(part: BookChapter, title: str, language: str) -> str:
    body = ['<section epub:type="chapter">']
    notes: list[str] = []

    def refer(words: str) -> str:
        notes.append(words)
        return f'<a epub:type="noteref" href="#note-{len(notes)}">{len(notes)}</a>'

    for place, block in enumerate(part.blocks):
        words = _with_notes(block.text, part.notes, _tagged, refer)
        level = max(block.level, 2) if place else 1  # the chapter's own title is the first
        match block.kind:
            case "heading":
                body.append(f'<h{level} id="s{place}">{words}</h{level}>')
            case "break":
                body.append("<hr/>")
            case _:
                body.append(f"<p>{words}</p>")
    for number, note in enumerate(notes, 1):
        words = "".join(map(_tagged, inlines(note)))
        body.append(f'<aside epub:type="footnote" id="note-{number}"><p>{words}</p></aside>')
    text = "\n".join([*body, "</section>"])
    return _xhtml(_xml(plain_title(part.title)) or title, language, text)


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
