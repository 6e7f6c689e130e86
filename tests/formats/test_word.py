"""Word documents: what a story becomes in one, and what a document becomes here."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from srbwriter import formats
from srbwriter.formats import FormatError
from srbwriter.story.draft import StoryDraft
from tests.formats.files import notices, path_text, tale

ORCHARD = """# The *first* part

It was **late**. "Go," she *said — at last*.
And a second line.

***

*All of it.* 5 * 3 and \\*stars\\*.

## Two

The end…"""


def written(draft: StoryDraft) -> Any:
    return docx.Document(io.BytesIO(formats.write(draft, "docx")))


def read(word: Any) -> StoryDraft:
    buffer = io.BytesIO()
    word.save(buffer)
    return formats.read(buffer.getvalue(), "a.docx")


def again(draft: StoryDraft) -> StoryDraft:
    return formats.read(formats.write(draft, "docx"), "a.docx")


def strict(data: bytes) -> bytes:
    """A document with the names of the strict kind of ISO/IEC 29500, as Word writes them on demand."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            part = old.read(name).replace(b"/2006/extended-properties", b"/2006/extendedProperties")
            part = part.replace(b"/relationships/extended-properties", b"/relationships/extendedProperties")
            kinds = rb"http://schemas\.openxmlformats\.org/(wordprocessingml|officeDocument|drawingml)/2006/"
            new.writestr(name, re.sub(kinds, rb"http://purl.oclc.org/ooxml/\1/", part))
    return made.getvalue()


def test_a_strict_document_reads_as_any_other() -> None:
    draft = tale("# One\n\nIt *rained*.", "\n\nNobody **said** so.", title="The Orchard", byline="Ada")
    data = formats.write(draft, "docx")
    assert b"purl.oclc.org" in zipfile.ZipFile(io.BytesIO(strict(data))).read("word/document.xml")
    assert formats.read(strict(data), "a.docx") == formats.read(data, "a.docx")


# ---- out


def test_a_story_becomes_headings_paragraphs_and_real_emphasis() -> None:
    word = written(tale(ORCHARD[:70], ORCHARD[70:], title="A & B", byline="Ada"))
    assert [(p.style.name, p.text) for p in word.paragraphs] == [
        ("Title", "A & B"),
        ("Author", "Ada"),
        ("Heading 1", "The first part"),
        ("First Paragraph", 'It was late. "Go," she said — at last.\nAnd a second line.'),
        ("Scene Break", "***"),
        ("First Paragraph", "All of it. 5 * 3 and *stars*."),
        ("Heading 2", "Two"),
        ("First Paragraph", "The end…"),
    ]


# ---- there and back


# ---- in


def test_title_and_headings_are_found_by_their_styles() -> None:
    word = docx.Document()
    word.core_properties.title, word.core_properties.author = "untitled document", "Ada"
    word.add_paragraph("The Orchard", "Title")
    word.add_paragraph("Ada", "Subtitle")
    own = word.styles.add_style("My heading", 1)
    own.base_style = word.styles["Heading 2"]
    word.add_paragraph("One\ntwo", "Heading 1")
    word.add_paragraph("Text.")
    word.add_paragraph("Three", "My heading")
    outlined = word.add_paragraph("By its outline")
    outlined._p.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl {nsdecls("w")} w:val="2"/>'))
    draft = read(word)
    assert (draft.title, draft.byline) == ("The Orchard", "Ada")
    assert path_text(draft) == "# One two\n\nText.\n\n## Three\n\n### By its outline"


def test_emphasis_is_found_in_runs_and_styles() -> None:
    word = docx.Document()
    paragraph = word.add_paragraph("a ")
    paragraph.add_run("b ").italic = True
    paragraph.add_run("c", "Strong")
    paragraph.add_run(" d").font.strike = True
    word.add_paragraph("All of it.", "Quote").add_run(" Not this.").italic = False
    word.add_paragraph("5 * 3 *x*")
    draft = read(word)
    assert path_text(draft) == "a *b* **c** d\n\n*All of it.* Not this.\n\n5 * 3 \\*x\\*"


def inserted(xml: str) -> Any:
    """A document whose second paragraph, or table, is ``xml``."""
    word = docx.Document()
    word.add_paragraph("Before.")
    namespaces = nsdecls("w", "wp", "a", "pic", "m") + (
        ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
        ' xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
    )
    word.paragraphs[0]._p.addnext(parse_xml(xml.replace(">", f" {namespaces}>", 1)))
    return word


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


BOX = f"<w:txbxContent><w:p>{run('In a box.')}</w:p></w:txbxContent>"


@pytest.mark.parametrize(
    ("xml", "text", "notice"),
    [
        (
            f'<w:p><w:ins w:id="1">{run("new ")}</w:ins><w:del w:id="2"><w:r><w:delText>old</w:delText></w:r>'
            f'</w:del><w:moveFrom>{run("gone")}</w:moveFrom>{run("words")}</w:p>',
            "new words", "",
        ),
        (f"<w:p><w:hyperlink>{run('a link')}</w:hyperlink></w:p>", "a link", ""),
        (f"<w:p><w:sdt><w:sdtContent>{run('a control')}</w:sdtContent></w:sdt></w:p>", "a control", ""),
        (f"<w:sdt><w:sdtContent><w:p>{run('a block')}</w:p></w:sdtContent></w:sdt>", "a block", ""),
        (
            "<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t><w:noBreakHyphen/><w:t>d</w:t>"
            '<w:br w:type="page"/></w:r></w:p>',
            "a\tb\nc\u2011d", "",
        ),
        (
            f"<w:p>{run('seen ')}<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r></w:p>",
            "seen ", "hidden",
        ),
        (
            "<w:p><w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>"
            f"<w:r><w:fldChar w:fldCharType='separate'/></w:r>{run('12')}</w:p>",
            "12", "",
        ),
        (f"<w:p>{run('x ')}<m:oMath><m:r><m:t>a+b</m:t></m:r></m:oMath></w:p>", "x a+b", ""),
        (
            f"<w:p>{run('Anchor.')}<w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing>{BOX}"
            f"</w:drawing></mc:Choice><mc:Fallback><w:pict>{BOX}</w:pict></mc:Fallback></mc:AlternateContent>"
            "</w:r></w:p>",
            "Anchor.\n\nIn a box.", "",
        ),
        ("<w:p><w:r><w:pict><v:rect xmlns:v='v' xmlns:o='urn:schemas-microsoft-com:office:office' o:hr='t'/>"
         "</w:pict></w:r></w:p>", "* * *", ""),
        (
            f"<w:p>{run('See ')}<w:r><w:drawing><wp:inline/></w:drawing></w:r></w:p>",
            "See ", "pictures were left out",
        ),
        (
            "<w:p><w:pPr><w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr></w:pPr>"
            f"{run('an item')}</w:p>",
            "- an item", "",
        ),
        (
            f"<w:tbl><w:tr><w:tc><w:p>{run('a')}</w:p></w:tc><w:tc><w:p>{run('b')}</w:p><w:p>{run('c')}</w:p>"
            f"</w:tc></w:tr><w:tr><w:tc><w:p>{run('d')}</w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>",
            "a\n\nb\n\nc\n\nd", "",
        ),
        (
            "<w:p><w:r><w:sym w:font='Symbol' w:char='03B1'/><w:sym w:font='Wingdings' w:char='F0E0'/>"
            "</w:r></w:p>",
            "α", "",
        ),
        (
            "<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val='Table of Contents'/></w:docPartObj>"
            "</w:sdtPr>"
            f"<w:sdtContent><w:p>{run('One … 3')}</w:p></w:sdtContent></w:sdt>",
            "", "table of contents",
        ),
    ],
)  # fmt: skip
def test_nothing_of_a_document_is_lost_without_a_word(xml: str, text: str, notice: str) -> None:
    draft = read(inserted(xml))
    assert path_text(draft) == "Before." + (f"\n\n{text}" if text else "")
    assert notice in " ".join(notices(draft)) if notice else not " ".join(notices(draft))


def with_part(data: bytes, name: str, xml: str, change: Callable[[str], str]) -> bytes:
    """The document with one more part, and ``change`` made to its text."""
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    related = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.namelist():
            text = old.read(member)
            if member == "[Content_Types].xml":
                part = f'<Override PartName="/word/{name}.xml" ContentType="{kind}.{name}+xml"/></Types>'
                text = text.replace(b"</Types>", part.encode())
            elif member == "word/_rels/document.xml.rels":
                relation = (
                    f'<Relationship Id="rX" Type="{related}/{name}" Target="{name}.xml"/></Relationships>'
                )
                text = text.replace(b"</Relationships>", relation.encode())
            elif member == "word/document.xml":
                text = change(text.decode()).encode()
            new.writestr(member, text)
        new.writestr(f"word/{name}.xml", xml)
    return target.getvalue()


def plain_document(*paragraphs: str) -> bytes:
    word = docx.Document()
    for text in paragraphs:
        word.add_paragraph(text, "Heading 1" if text.startswith("Chapter") else None)
    buffer = io.BytesIO()
    word.save(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["footnote", "endnote"])
def test_notes_stand_at_the_end_of_their_chapter(kind: str) -> None:
    notes = (
        f"<w:{kind}s {nsdecls('w')}><w:{kind} w:type='separator' w:id='0'><w:p/></w:{kind}>"
        f"<w:{kind} w:id='2'><w:p>{run('Not an *apple*.')}</w:p></w:{kind}></w:{kind}s>"
    )

    def point(text: str) -> str:
        return text.replace(
            "HERE</w:t>", f"</w:t></w:r><w:r><w:{kind}Reference w:id='2'/></w:r><w:r><w:t>!</w:t>"
        )

    data = with_part(plain_document("Chapter", "PearHERE", "Chapter two", "End."), f"{kind}s", notes, point)
    draft = formats.read(data, "a.docx")
    assert path_text(draft) == (
        "# Chapter\n\nPear[^1]!\n\n[^1]: Not an \\*apple\\*.\n\n# Chapter two\n\nEnd."
    )


def test_comments_become_notes() -> None:
    word = docx.Document()
    word.add_paragraph("Chapter", "Heading 1")
    paragraph = word.add_paragraph("Text.")
    word.add_comment(paragraph.runs[0], "Really?", "Bob", "B")
    draft = read(word)
    assert draft.nodes[2].note == "Bob: Really?" and path_text(draft) == "# Chapter\n\nText."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[: len(data) // 2], "broken archive"),
        (lambda data: with_part(data, "x", "<x/>", lambda text: text[:-9]), "not sound"),
    ],
)
def test_a_broken_document_is_refused_in_words(change: Callable[[bytes], bytes], words: str) -> None:
    with pytest.raises(FormatError, match=f"^a.docx.* is .*{words}"):
        formats.read(change(plain_document("Text.")), "a.docx")
