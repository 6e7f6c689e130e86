"""Texts in other encodings, and files of programs whose formats are not read: what their owner is told."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest

from srbwriter import formats
from srbwriter.formats import FormatError
from tests.formats.files import path_text

FRENCH = "Il était une fois, à l’orée d’un bois, une fée très âgée. « Où vas-tu ? »\n"
RUSSIAN = "Жили-были старик со старухой у самого синего моря. Они жили в ветхой землянке.\n"


def refusal(data: bytes, name: str = "tale.txt", encoding: str = "") -> str:
    with pytest.raises(FormatError) as caught:
        formats.read(data, name, encoding=encoding)
    assert str(caught.value).startswith(name)
    return str(caught.value)


# ---- encodings


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", [FRENCH, RUSSIAN, "[[a]] b"])
def test_utf_is_read_by_itself(text: str, encoding: str) -> None:
    assert path_text(formats.read(text.encode(encoding), "tale.txt")) == text


@pytest.mark.parametrize("encoding", ["cp1252", "koi8_r", "cp932", "utf-16-le"])
def test_another_encoding_is_never_guessed_and_can_be_named(encoding: str) -> None:
    text = {"koi8_r": RUSSIAN, "cp932": "むかしむかし、おじいさんが"}.get(encoding, FRENCH)
    assert "name its encoding: `srbwriter import --encoding cp1252`" in refusal(text.encode(encoding))
    assert "name another encoding" in refusal(b"\xff\xfe\0", encoding="ascii")
    assert path_text(formats.read(text.encode(encoding), "tale.txt", encoding=encoding)) == text


# ---- what other programs write


def zipped(**members: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/"), text)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "what", "cure"),
    [
        (b"SQLite format 3\0rest", "a database", "open it"),
        (b"%PDF-1.7\n...", "a PDF", "import what it was made from"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 90, ".doc", "save it as .docx"),
        (gzip.compress(b"text", mtime=0), "compressed", "unpack it"),
        (zipped(a="x"), "an archive (ZIP)", "unpack it"),
        (zipped(**{"Index__Document.iwa": "x"}), "an archive", "save the document as .docx"),
        (b'<?xml version="1.0"?>\n<FinalDraft DocumentType="Script">', "XML", "--format text"),
        (
            zipped(mimetype="application/vnd.oasis.opendocument.text"),
            "content.xml is missing",
            "save it once more",
        ),
        (zipped(mimetype="application/epub+zip"), "container.xml is missing", "convert it to .docx"),
    ],
)
def test_a_file_that_is_known_and_not_read_is_named_with_the_cure(data: bytes, what: str, cure: str) -> None:
    message = refusal(data, "any.name")
    assert what in message and cure in message


def test_a_format_can_be_named_and_must_be_one_to_import() -> None:
    assert len(formats.read(b"# One\n", "a", format_name="text").nodes) == 2
    assert formats.read(b"Text.", "a", format_name="markdown").text == "Text."
    with pytest.raises(KeyError, match="no format 'pages'"):
        formats.read(b"Text.", "a", format_name="pages")
    for name in ("docx", "odt", "epub", "rtf", "loom"):
        with pytest.raises(FormatError):
            formats.read(b"Text.", "a", format_name=name)
