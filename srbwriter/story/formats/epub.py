"""EPUB books: the active path out as EPUB 3, books of any version without copy protection in.

Follows EPUB 3.3 (W3C): ``mimetype`` first and uncompressed, a package document, a navigation document. Of a
book that comes in, the pages of the spine are read in their order, each as HTML is.
"""

from __future__ import annotations

import io
import posixpath
import re
import time
import uuid
import zipfile
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from srbwriter.story.formats import webpage
from srbwriter.story.formats.archive import Archive, local_name, named, text_in
from srbwriter.story.formats.base import Document, Format, NotForUs
from srbwriter.story.formats.build import read_time, write_time
from srbwriter.story.formats.encoding import decode
from srbwriter.story.formats.inline import plain
from srbwriter.story.formats.manuscript import Manuscript
from srbwriter.story.formats.prose import (
    Block,
    Chapter,
    Heading,
    Paragraph,
    SceneBreak,
    blocks,
    chapters,
    xhtml,
    xml_text,
)
from srbwriter.story.languages import language_tag
from srbwriter.story.model import StoryDraft

NAME = "epub"

_UNTITLED = "Untitled"
_FIRST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes for the same story, whenever it is written

_CONTAINER = """<?xml version="1.0" encoding="utf-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""

_STYLE = """body { line-height: 1.5; margin: 0 5%; }
h1, h2, h3, h4, h5, h6 { margin: 2em 0 1em; text-align: center; }
p { margin: 0; text-indent: 1.5em; }
h1 + p, h2 + p, h3 + p, h4 + p, h5 + p, h6 + p, hr + p { text-indent: 0; }
hr { border: 0; height: 1em; margin: 1em 0; text-align: center; }
hr::before { content: "* * *"; }
"""


_MIMETYPE = "application/epub+zip"
_CONTAINER_NAME = "META-INF/container.xml"
_PROTECTION = "META-INF/encryption.xml"
_FONTS_ALONE = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Algorithms that hide fonts, and no words."""

_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")
_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_OWN_UUID = re.compile(r"(?:urn:uuid:)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)


def matches(document: Document) -> bool:
    return document.mimetype == _MIMETYPE or _CONTAINER_NAME in document.names


def read(document: Document) -> StoryDraft:
    """The story in a book. Raises :class:`NotForUs` for one that is protected, or cannot be opened."""
    cure = "open it in Calibre and convert it to .docx, or export its text from where it was made"
    archive = Archive(document, "EPUB book", cure)
    _refuse_protected(archive, document.name)
    place = next((file.get("full-path", "") for file in named(archive.xml(_CONTAINER_NAME), "rootfile")), "")
    package = archive.xml(unquote(place))
    manuscript = Manuscript()
    for item in _spine(package, posixpath.dirname(place)):
        _read_item(archive, manuscript, item, document.name)
    if manuscript.empty:
        raise NotForUs(document.name, "is a book without words", "a book of pictures has no text to import")
    draft = manuscript.draft()
    _describe(draft, package)
    return draft


class _Item(NamedTuple):
    """A file of the manifest that is listed in the spine."""

    path: str
    kind: str
    properties: str


def _refuse_protected(archive: Archive, name: str) -> None:
    """Refuse a book whose pages are encrypted; encrypted fonts do no harm."""
    if _PROTECTION in archive:
        methods = named(archive.xml(_PROTECTION), "EncryptionMethod")
        if any(method.get("Algorithm") not in _FONTS_ALONE for method in methods):
            cure = "import the manuscript that it was made from, or a copy without protection"
            raise NotForUs(name, "is protected against copying (DRM)", cure)


def _spine(package: Element, folder: str) -> Iterator[_Item]:
    """The files of a book in the order in which they are read, each once."""
    items: dict[str, _Item] = {}
    for item in named(package, "item"):
        path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", "").partition("#")[0])))
        items[item.get("id", "")] = _Item(path, item.get("media-type", ""), item.get("properties", ""))
    for reference in named(package, "itemref"):
        if (found := items.pop(reference.get("idref", ""), None)) is not None:
            yield found


def _read_item(archive: Archive, manuscript: Manuscript, item: _Item, name: str) -> None:
    if "nav" in item.properties.split():
        manuscript.add_notice("the table of contents was left out")
    elif item.kind not in _PAGES:
        manuscript.add_notice(f"{item.path} was left out; it is no page of text")
    elif item.path not in archive:
        manuscript.add_notice(f"{item.path} was left out; the book names it and does not hold it")
    else:
        data = archive.read(item.path)
        named_encoding = _ENCODING.match(data)
        encoding = named_encoding[1].decode().lower() if named_encoding else ""
        text = decode(data, f"{name}, {item.path}", "" if encoding.startswith("utf") else encoding)
        webpage.read_part(manuscript, text, f"{name}, {item.path}")


def _describe(draft: StoryDraft, package: Element) -> None:
    """What the package says of the book."""
    about = next(named(package, "metadata"), package)
    values: dict[str, list[str]] = {}
    for element in about.iter():
        if words := text_in(element):
            values.setdefault(local_name(element), []).append(words)
    draft.title = next(iter(values.get("title", ())), "")
    draft.title = "" if draft.title == _UNTITLED else draft.title
    draft.byline = ", ".join(values.get("creator", ()))
    draft.language = next((tag for tag in values.get("language", ()) if tag != "und"), "")
    modified = (text_in(meta) for meta in named(about, "meta") if meta.get("property") == "dcterms:modified")
    draft.modified = read_time(next(modified, None))
    uuids = (_OWN_UUID.fullmatch(identifier) for identifier in values.get("identifier", ()))
    draft.id = next((own[1] for own in uuids if own is not None), "")


def write(draft: StoryDraft) -> bytes:
    parts = chapters(draft)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, "mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        _add(archive, "META-INF/container.xml", _CONTAINER)
        _add(archive, "EPUB/package.opf", _package(draft, parts))
        _add(archive, "EPUB/nav.xhtml", _navigation(draft, parts))
        _add(archive, "EPUB/style.css", _STYLE)
        for number, chapter in enumerate(parts, 1):
            _add(archive, f"EPUB/{_file(number)}", _page(draft, chapter))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, text: str, how: int = zipfile.ZIP_DEFLATED) -> None:
    info = zipfile.ZipInfo(name, _FIRST_ZIP_DATE)
    archive.writestr(info, text.encode("utf-8", "replace"), compress_type=how)


def _file(number: int) -> str:
    return f"chapter-{number:04}.xhtml"


def _title(draft: StoryDraft) -> str:
    return xml_text(draft.title.strip() or _UNTITLED)


def _language(draft: StoryDraft) -> str:
    return language_tag(draft.language) or "und"


def _identifier(draft: StoryDraft) -> str:
    """The story's own id; for one without, the same for the same beginning of the same story."""
    try:
        return str(uuid.UUID(draft.id))
    except ValueError:
        first_made = f"{draft.title}\n{draft.byline}\n{draft.created}\n{draft.root.id}"
        return str(uuid.uuid5(uuid.NAMESPACE_URL, first_made.encode("utf-8", "replace").decode()))


def _package(draft: StoryDraft, parts: list[Chapter]) -> str:
    moment = next((at for at in (draft.modified, draft.created) if at is not None), time.time())
    numbers = range(1, len(parts) + 1)
    items = "".join(
        f'<item id="c{number}" href="{_file(number)}" media-type="application/xhtml+xml"/>\n'
        for number in numbers
    )
    spine = "".join(f'<itemref idref="c{number}"/>\n' for number in numbers)
    creator = f"<dc:creator>{xml_text(draft.byline)}</dc:creator>\n" if draft.byline.strip() else ""
    return f"""<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" \
xml:lang="{_language(draft)}">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{_identifier(draft)}</dc:identifier>
<dc:title>{_title(draft)}</dc:title>
<dc:language>{_language(draft)}</dc:language>
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


def _navigation(draft: StoryDraft, parts: list[Chapter]) -> str:
    links = "".join(
        f'<li><a href="{_file(number)}">{xml_text(plain(chapter.title).strip()) or _title(draft)}</a></li>\n'
        for number, chapter in enumerate(parts, 1)
    )
    body = f'<nav epub:type="toc"><h1>{_title(draft)}</h1>\n<ol>\n{links}</ol></nav>'
    return _xhtml(draft, _title(draft), body)


def _page(draft: StoryDraft, chapter: Chapter) -> str:
    name = xml_text(plain(chapter.title).strip())
    parts = [f"<h1>{xhtml(chapter.title.strip())}</h1>"] if name else []
    parts += map(_element, blocks(chapter.text))
    body = "\n".join(parts)
    return _xhtml(draft, name or _title(draft), f'<section epub:type="chapter">\n{body}\n</section>')


def _element(block: Block) -> str:
    match block:
        case Heading(level, title):
            level = max(level, 2)  # the chapter's own title is the first
            return f"<h{level}>{xhtml(title)}</h{level}>"
        case SceneBreak():
            return "<hr/>"
        case Paragraph(text):
            return f"<p>{xhtml(text)}</p>"


def _xhtml(draft: StoryDraft, title: str, body: str) -> str:
    language = _language(draft)
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


FORMAT = Format(NAME, "EPUB book (active path)", ".epub", matches, read, write)
