"""Texts in other encodings, and files of programs whose formats are not read: what their owner is told."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from tests.story.format_files import path_text

FRENCH = "Il était une fois, à l’orée d’un bois, une fée très âgée. « Où vas-tu ? »\n"
RUSSIAN = "Жили-были старик со старухой у самого синего моря. Они жили в ветхой землянке.\n"


def refusal(data: bytes, name: str = "tale.txt", encoding: str = "") -> str:
    with pytest.raises(FormatError) as caught:
        formats.read(data, name, encoding=encoding)
    assert str(caught.value).startswith(name)
    return str(caught.value)


# ---- encodings


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("text", [FRENCH, RUSSIAN, "[[a]] b"])
def test_utf_is_read_by_itself(text: str, encoding: str) -> None:
    assert path_text(formats.read(text.encode(encoding), "tale.txt")) == text


@pytest.mark.parametrize(
    ("text", "encoding", "likely"),
    [
        (FRENCH, "cp1252", "cp1252"),
        ("El niño pequeño.", "latin-1", "cp1252"),
        ("Il était une fée, très âgée.", "mac_roman", "mac_roman"),
        ("Il était une fée, très âgée.", "cp850", "cp850"),
        (RUSSIAN, "cp1251", "cp1251"),
        (RUSSIAN, "koi8_r", "koi8-r"),
        ("むかしむかし、あるところに、おじいさんとおばあさんがいました。", "cp932", "cp932"),
        ("從前有一座山，山裡有一座廟，廟裡有個老和尚。", "big5", "big5"),
        (FRENCH, "utf-16-le", "utf-16-le"),
        (FRENCH, "utf-16-be", "utf-16-be"),
    ],
)
def test_another_encoding_is_named_with_the_cure_and_the_cure_works(
    text: str, encoding: str, likely: str
) -> None:
    message = refusal(text.encode(encoding))
    iconv = "MACINTOSH" if likely == "mac_roman" else likely.upper()
    assert f"--encoding {likely}" in message and f"iconv -f {iconv} -t UTF-8" in message
    assert path_text(formats.read(text.encode(encoding), "tale.txt", encoding=likely)) == text


def test_a_named_encoding_that_is_none_is_refused() -> None:
    assert "klingon is no encoding" in refusal(b"text", encoding="klingon")
    assert "base64 is no encoding" in refusal(b"text", encoding="base64")
    words = refusal(b"caf\xc3\xa9\xe9", encoding="utf-8")
    assert "at byte 5: expected a text in utf-8, as you named it" in words
    assert "as you named it" in refusal("a".encode("utf-16-le"), encoding="latin-1")


def test_bytes_that_are_no_text_are_not_taken_for_an_encoding() -> None:
    assert "iconv" not in refusal(bytes(range(256)) * 4)


# ---- what other programs write


def zipped(**members: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/"), text)
    return buffer.getvalue()


TWEE = ":: StoryTitle\nThe Orchard\n\n:: Start\nYou stand. [[Go->Gate]]\n\n:: Gate\nClosed.\n"
INK = "Once upon a time.\n* [Go] -> gate\n\n=== gate ===\nIt is shut.\n-> END\n"


@pytest.mark.parametrize(
    ("data", "what", "cure"),
    [
        (b"%PDF-1.7\n...", "a PDF", "import what it was made from"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 90, ".doc", "save it as .docx"),
        (
            zipped(mimetype="application/vnd.oasis.opendocument.text"),
            "OpenDocument",
            "open it in LibreOffice",
        ),
        (zipped(mimetype="application/epub+zip"), "EPUB", "convert it to .docx"),
        (zipped(mimetype="application/vnd.oasis.opendocument.spreadsheet"), "no text", "export"),
        (zipped(**{"Index__Document.iwa": "x"}), "Pages", "export it from Pages"),
        (zipped(**{"[Content_Types].xml": "x", "xl__workbook.xml": "x"}), "no Word document", "save it as"),
        (zipped(a="x"), "an archive (ZIP)", "unpack it"),
        (gzip.compress(b"text", mtime=0), "gzip", "unpack it"),
        (b"\xff\xd8\xff\xe0....", "JPEG", "cards in PNG"),
        (b"\0" * 60 + b"BOOKMOBI", "Kindle", "export its text"),
        (TWEE.encode(), "Twee", "--format text"),
        (b"::Start\nGo [[north]].\n", "Twee", "--format text"),
        (b"<!DOCTYPE html><html><tw-storydata name='x'></tw-storydata></html>", "Twine", "proofing copy"),
        (INK.encode(), "Ink", "--format text"),
        (b"\\documentclass{book}\n\\begin{document}\nText.\n", "LaTeX", "pandoc -f latex"),
        (b'<?xml version="1.0"?><FictionBook xmlns="x">', "fb2", "pandoc -f fb2"),
        (b'<?xml version="1.0"?>\n<ScrivenerProject Version="2.0">', "Scrivener", "NAME.scriv"),
        (b'<?xml version="1.0"?>\n<FinalDraft DocumentType="Script">', "fdx", "Fountain"),
        (b'<?xml version="1.0"?><office:document office:x="y">', "fodt", "save it as .docx"),
        (b'<?xml version="1.0"?><rss><item>A</item></rss>', "XML", "--format text"),
    ],
)
def test_a_file_that_is_known_and_not_read_is_named_with_the_cure(data: bytes, what: str, cure: str) -> None:
    message = refusal(data, "any.name")
    assert what in message and cure in message


@pytest.mark.parametrize(
    "text", [TWEE, INK, "\\documentclass{book}", r"{\rtf1 a}", '{"a": 1}', "", "PK\x03\x04"]
)
def test_whoever_wants_the_source_gets_it_as_it_stands(text: str) -> None:
    assert path_text(formats.read(text.encode(), "tale.txt", format_name="text")) == text


def test_a_format_can_be_named_and_must_be_one_to_import() -> None:
    assert len(formats.read(b"# One\n", "a", format_name="text").nodes) == 2
    assert formats.read(b"Text.", "a", format_name="markdown").nodes[-1].text == "Text."
    with pytest.raises(KeyError, match="no format 'pages'"):
        formats.read(b"Text.", "a", format_name="pages")
    for name in ("docx", "odt", "epub", "rtf", "loom"):
        with pytest.raises(FormatError):
            formats.read(b"Text.", "a", format_name=name)


# ---- screenplays

FOUNTAIN = """Title:
    _**The Orchard**_
Credit: written by
Author: Ada

INT. HOUSE - NIGHT

ADA
(low)
It was late.

EXT. ORCHARD - DAY
"""


def test_a_screenplay_is_text_with_a_notice() -> None:
    draft = formats.read(FOUNTAIN.encode(), "a.fountain")
    assert path_text(draft) == FOUNTAIN
    assert (draft.title, draft.byline) == ("The Orchard", "Ada")
    assert "Fountain" in str(draft.meta["notices"])
