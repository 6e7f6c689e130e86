"""Books and documents as other programs make them, for tests: EPUB, OpenDocument, RTF."""

# ruff: noqa: E501 - lines as those programs write them

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def zipped(parts: Mapping[str, str | bytes], mimetype: str = "") -> bytes:
    """An archive of ``parts``; ``mimetype`` stands first in it, uncompressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        if mimetype:
            archive.writestr(zipfile.ZipInfo("mimetype"), mimetype)
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


# -- EPUB ----------------------------------------------------------------------------------------------

CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""

PACKAGE = """<?xml version="1.0" encoding="UTF-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="2.0" unique-identifier="uid">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:opf="http://www.idpf.org/2007/opf">
<dc:title>The Orchard</dc:title><dc:creator opf:role="aut">Ada Lovell</dc:creator>
<dc:creator opf:role="ill">Ben Pohl</dc:creator><dc:language>en-GB</dc:language>
<dc:identifier id="uid" opf:scheme="ISBN">9781234567897</dc:identifier>
<dc:publisher>Small Press</dc:publisher><meta name="cover" content="cover"/></metadata>
<manifest>
<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>
<item id="cover" href="cover.jpg" media-type="image/jpeg"/>
<item id="two" href="Text/chapter%202.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="Text/chapter1.xhtml" media-type="application/xhtml+xml"/>
<item id="title" href="Text/title.xhtml" media-type="application/xhtml+xml"/></manifest>
<spine toc="ncx"><itemref idref="title"/><itemref idref="one"/><itemref idref="two"/></spine></package>"""


def page(title: str, body: str) -> str:
    return f"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{title}</title>
<link href="../style.css" rel="stylesheet" type="text/css"/></head>
<body>{body}</body></html>"""


PAGES = {
    "Text/title.xhtml": page(
        "The Orchard", '<p class="by">A tale of rain.</p><p><img src="a.jpg" alt=""/></p>'
    ),
    "Text/chapter1.xhtml": page(
        "One",
        "<h1>One</h1>\n<p>It was <em>late</em>; \u201cgo\u201d, she\n said.</p><hr/><p>Rain &amp; <b>snow</b>.</p>",
    ),
    "Text/chapter 2.xhtml": page("Two", '<h2 id="two">Two</h2><p>Home.<br/>Nobody\u00a0came.</p>'),
}


def book(package: str = PACKAGE, **parts: str | bytes) -> bytes:
    """An EPUB of version 2, as Sigil or Calibre write it; ``parts`` replace or add files by their paths."""
    files: dict[str, str | bytes] = {"META-INF/container.xml": CONTAINER, "OEBPS/content.opf": package}
    files |= {f"OEBPS/{name}": text for name, text in PAGES.items()}
    return zipped({**files, **parts}, "application/epub+zip")


# -- OpenDocument --------------------------------------------------------------------------------------

SPACES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in (
        ("office", "office"), ("style", "style"), ("text", "text"), ("table", "table"), ("draw", "drawing"),
        ("fo", "xsl-fo-compatible"), ("meta", "meta"), ("number", "datastyle"), ("manifest", "manifest"),
    )
) + ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"'  # fmt: skip

AUTOMATIC = """<number:date-style style:name="N1"><number:text>date</number:text></number:date-style>
<style:style style:name="T1" style:family="text"><style:text-properties fo:font-style="italic"/></style:style>
<style:style style:name="T2" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>
<style:style style:name="T3" style:family="text"><style:text-properties fo:font-style="normal"/></style:style>
<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Title"/>
<style:style style:name="P2" style:family="paragraph" style:parent-style-name="Quotations"/>"""

STYLES = f"""<?xml version="1.0" encoding="UTF-8"?><office:document-styles {SPACES}><office:styles>
<style:style style:name="Title" style:family="paragraph"/>
<style:style style:name="Quotations" style:family="paragraph"><style:text-properties fo:font-style="italic"/>
</style:style></office:styles></office:document-styles>"""

META = f"""<?xml version="1.0" encoding="UTF-8"?><office:document-meta {SPACES}><office:meta>
<meta:generator>LibreOffice/7.6</meta:generator><meta:initial-creator>Ada Lovell</meta:initial-creator>
<dc:language>en-GB</dc:language><dc:date>2024-05-06T07:08:09</dc:date><dc:subject>rain</dc:subject>
</office:meta></office:document-meta>"""

BODY = """<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p></text:deletion>
</text:changed-region></text:tracked-changes>
<text:sequence-decls><text:sequence-decl text:name="Illustration"/></text:sequence-decls>
<text:p text:style-name="P1">The Orchard</text:p>
<text:table-of-content><text:index-body><text:p>One 1</text:p></text:index-body></text:table-of-content>
<text:h text:style-name="Heading_20_1" text:outline-level="1">One</text:h>
<text:p text:style-name="Standard">It was <text:span text:style-name="T1">late</text:span>;
   \u201cgo\u201d,<text:s text:c="2"/>she<text:tab/>said<text:note text:id="f1" text:note-class="footnote">
<text:note-citation>1</text:note-citation><text:note-body><text:p>Below <text:span text:style-name="T2">it</text:span>.
</text:p></text:note-body></text:note>.<text:line-break/>Next <text:a xlink:href="x">line</text:a>.<office:annotation>
<dc:creator>Bob</dc:creator><dc:date>2024-01-01</dc:date><text:p>Really?</text:p></office:annotation></text:p>
<text:p text:style-name="P2">All <text:span text:style-name="T3">but this</text:span> slanted</text:p>
<text:p/>
<text:p>* * *</text:p>
<text:section text:name="S"><text:list><text:list-item><text:p>first</text:p><text:p>more</text:p></text:list-item>
<text:list-item><text:p>second</text:p></text:list-item></text:list></text:section>
<text:h text:outline-level="2">Two</text:h>
<table:table><table:table-column/><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>
<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table>
<text:p><draw:frame><draw:image xlink:href="Pictures/1.png"/></draw:frame>Home.</text:p>"""


def content(body: str = BODY, prolog: str = '<?xml version="1.0" encoding="UTF-8"?>') -> str:
    return (
        f"{prolog}<office:document-content {SPACES}><office:automatic-styles>{AUTOMATIC}</office:automatic-styles>"
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )


MANIFEST = f'<?xml version="1.0"?><manifest:manifest {SPACES}><manifest:file-entry/></manifest:manifest>'


def odt(body: str = BODY, **parts: str | bytes) -> bytes:
    """A text as LibreOffice writes it; ``parts`` replace or add files by their paths."""
    files: dict[str, str | bytes] = {
        "content.xml": content(body), "styles.xml": STYLES, "meta.xml": META, "META-INF/manifest.xml": MANIFEST,
    }  # fmt: skip
    return zipped({**files, **parts}, "application/vnd.oasis.opendocument.text")


# -- RTF -----------------------------------------------------------------------------------------------

RTF = rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\froman\fcharset0 Times New Roman;}{\f1\fnil\fcharset204 PT Serif;}}
{\colortbl;\red0\green0\blue0;}{\stylesheet{\s0 Normal;}{\s1\outlinelevel0\b heading 1;}{\s15 Title;}{\*\cs10 Default;}}
{\info{\title The Orchard}{\author Ada Lovell}{\company Nobody}}{\*\generator Word;}
{\header\pard A header\par}
\pard\plain\s15 The Orchard\par
\pard\plain\s1\b One\b0\par
\pard\plain It was \i late\i0 ; \'93go\'94, she said\u8212-\u8220?now\u8221?. \u-10179?\u-8999? {\b bold{\i both}}\line Next\par
{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}\par
\pard Note{\footnote \chftn  Below {\i it}.}. {\*\atnid x}{\*\atnauthor Bob}\chatn{\*\annotation{\*\atnref 1}Really?}{\field{\*\fldinst HYPERLINK "x"}{\fldrslt link}}\par
\trowd\cellx1\pard\intbl a\cell b\cell\row\trowd\pard\intbl c\cell d\cell\row
\pard {\*\shppict{\pict\bin5 }{}\}x}}\{ok\} * star_ {\deleted gone}{\v hidden}\par
{\listtext 1.\tab}Item\par
\pard * * *\par
{\shp{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt Boxed\par}}}Hang\par
\pard Two\page Three\
Four}"""
