"""EPUB, OpenDocument and RTF on their way in, as other programs write them, and broken."""

from __future__ import annotations

import pytest

from srbwriter import formats
from srbwriter.formats import FormatError, opening
from tests.formats.documents import MANIFEST, PACKAGE, RTF, book, content, odt, page, zipped
from tests.formats.files import format_of, notices, path_text


def refusal(data: bytes, name: str = "novel") -> str:
    with pytest.raises(FormatError) as raised:
        formats.read(data, name)
    words = str(raised.value)
    assert words.startswith(name) and "\n" not in words
    return words


# -- EPUB ----------------------------------------------------------------------------------------------


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    draft = formats.read(book(), "book.epub")
    assert format_of(book()) == "epub"
    assert path_text(draft) == (
        "A tale of rain.\n\n# One\n\nIt was *late*; “go”, she said.\n\n* * *\n\nRain & **snow**.\n\n"
        "## Two\n\nHome.\nNobody\u00a0came."
    )
    assert (draft.title, draft.byline, draft.language) == ("The Orchard", "Ada Lovell, Ben Pohl", "en-GB")
    assert notices(draft) == ["pictures were left out"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (zipped({"a": "b"}, "application/epub+zip"), "META-INF/container.xml is missing"),
        (book(**{"META-INF/container.xml": "<a"}), "META-INF/container.xml is not sound (unclosed token"),
        (book("<package/>"), "is a book without words"),
        (book(PACKAGE.replace("idref=", "id=")), "is a book without words"),
        (book(**{"OEBPS/content.opf": '<!DOCTYPE a [<!ENTITY b "c">]><package>&b;</package>'}), "entities"),
        (
            book(**{"META-INF/encryption.xml": '<e><EncryptionMethod Algorithm="aes256"/></e>'}),
            "is protected against copying (DRM)",
        ),
        (book(**{"OEBPS/Text/chapter1.xhtml": b"<p>caf\xe9</p>"}), "is no text in UTF-8"),
        (book()[:-200], "broken archive"),
        (odt(**{"META-INF/manifest.xml": MANIFEST.replace("file-entry", "encryption-data")}),
         "has a password — save it without one"),
        (zipped({"a": "b"}, "application/vnd.oasis.opendocument.text"), "content.xml is missing"),
        (odt("<text:p>"), "content.xml is not sound (mismatched tag"),
        (odt("<text:p>&nbsp;</text:p>"), "undefined entity"),
        (odt(**{"content.xml": content("&b;", '<!DOCTYPE a [<!ENTITY b "c">]>')}), "entities, which are not"),
        (odt(**{"content.xml": content("&b;", '<!DOCTYPE a [<!ENTITY b SYSTEM "/etc/x">]>')}), "entities"),
        (odt("<text:section>" * 5000 + "</text:section>" * 5000), "nested too deeply"),
        (odt()[:-300], "broken archive"),
    ],
)  # fmt: skip
def test_a_broken_book_or_text_says_what_is_wrong_and_what_to_do(data: bytes, words: str) -> None:
    said = refusal(data)
    assert words in said and ("—" in said)


def test_a_page_says_its_encoding() -> None:
    text = page("x", "<p>caf\u00e9</p>").replace("utf-8", "iso-8859-1").encode("latin-1")
    draft = formats.read(book(**{"OEBPS/Text/title.xhtml": text}), "a")
    assert path_text(draft).startswith("caf\u00e9\n\n")


def test_archives_that_unpack_to_more_than_any_text_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MOST_UNPACKED", 5000)
    bomb = "<p>" + "a" * 100_000 + "</p>"
    assert "unpacks to more than" in refusal(book(**{"OEBPS/Text/title.xhtml": bomb}))
    assert "unpacks to more than" in refusal(odt(bomb))
    assert "export its text alone" in refusal(odt(bomb))


# -- OpenDocument --------------------------------------------------------------------------------------


def test_a_text_of_libreoffice_is_read_whole() -> None:
    draft = formats.read(odt(), "a.odt")
    assert format_of(odt()) == "odt"
    assert path_text(draft) == (
        "# One\n\nIt was *late*; \u201cgo\u201d,  she\tsaid[^1].\nNext line.\n\n*All* but this *slanted*"
        "\n\n* * *\n\n"
        "- first\n\nmore\n\n- second\n\n[^1]: Below **it**.\n\n## Two\n\na\n\nb\n\nHome."
    )
    assert (draft.title, draft.byline, draft.language) == ("The Orchard", "Ada Lovell", "en-GB")
    assert draft.nodes[2].note == "Bob: Really?"
    for words in ("the table of contents", "pictures"):
        assert any(words in notice for notice in notices(draft)), words


# -- RTF -----------------------------------------------------------------------------------------------


def test_rich_text_is_read_whole() -> None:
    draft = formats.read(RTF, "a.rtf")
    assert format_of(RTF) == "rtf"
    assert path_text(draft) == (
        "# One\n\nIt was *late*; “go”, she said—“now”. \U0001f4d9 **bold*both***\nNext\n\n"
        "Привет\n\nNote[^1]. link\n\na\n\nb\n\nc\n\nd\n\n{ok} * star_ \n\n- Item\n\n* * *\n\n"
        "Hang\n\nBoxed\n\nTwo\n\n"
        "Three\n\nFour\n\n[^1]: Below *it*."
    )
    assert (draft.title, draft.byline) == ("The Orchard", "Ada Lovell")
    assert draft.nodes[2].note == "Bob: Really?"
    for words in ("pictures", "hidden or deleted"):
        assert any(words in notice for notice in notices(draft)), words


def test_text_edit_ends_paragraphs_with_a_backslash() -> None:
    data = rb"""{\rtf1\ansi\ansicpg1252\cocoartf2709
\cocoatextscaling0\cocoaplatform0{\fonttbl\f0\fswiss\fcharset0 Helvetica;\f1\fswiss Helvetica-Oblique;}
{\*\expandedcolortbl;;}
\pard\tx720\pardirnatural\partightenfactor0

\f0\fs24 \cf0 It rained.\
\
She \f1\i ran
\f0\i0 .}"""
    assert path_text(formats.read(data, "a.rtf")) == "It rained.\n\nShe *ran*."


def test_rich_text_in_other_code_pages() -> None:
    for page_number, codec, words in (
        (1251, "cp1251", "Привет"),
        (932, "cp932", "夜の雨"),
        (10000, "mac_roman", "café"),
    ):
        packed = "".join(f"\\'{byte:02x}" for byte in words.encode(codec))
        data = f"{{\\rtf1\\ansi\\ansicpg{page_number} {packed}\\par}}".encode()
        assert path_text(formats.read(data, "a.rtf")) == words


def test_rich_text_that_was_cut_off_says_so() -> None:
    draft = formats.read(rb"{\rtf1 It {\i rained", "a.rtf")
    assert path_text(draft) == "It *rained*"
    assert notices(draft) == ["the file ends in the middle; what there is of it was read"]
