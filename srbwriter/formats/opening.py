"""Opens the bytes of a file as a picture, an archive, RTF, JSON or text, or says in words why not.

An encoding that is not UTF is never guessed, because a wrong guess puts wrong letters into a story: the error
names the option that sets it.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import zipfile
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from srbwriter.story.model import JsonObject, as_object
from srbwriter.story.words import well_formed

AS_TEXT = "`srbwriter import --format text` takes it as it stands"
PNG = b"\x89PNG\r\n\x1a\n"
MOST_UNPACKED = 1 << 28  # bytes of all parts of an archive that are read
_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_WORDS_ONLY = "export its text as .txt, .html or .docx, and import that"
_REFUSED = (
    (b'380242cd {"srbwriter":', "is a story", "give it a name in .srbw and open it; it needs no import"),
    (b"SQLite format 3\0", "is a database", "if it is a story, open it; it needs no import"),
    (b"%PDF-", "is a PDF, which has places of letters and no text", "import what it was made from"),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "is an old Word file (.doc), or one with a password", "save it as .docx, without a password",
    ),
    (
        (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07"),
        "is compressed, or an archive", "unpack it, and import what is in it",
    ),
)  # fmt: skip
"""Files that are known and not read, by their first bytes: what they are, and what to do."""


class FormatError(ValueError):
    """A file is invalid. The message names the file, the place in it, and what was expected there."""

    def __init__(self, file: str, place: str, expected: str) -> None:
        super().__init__(f"{file}: at {place}: expected {expected}")
        self.file, self.place, self.expected = file, place, expected


class NotForUs(FormatError):
    """A sound file that cannot become a story here: the message says what it is, and what to do about it."""

    def __init__(self, file: str, problem: str, cure: str, place: str = "byte 0") -> None:
        super().__init__(file, place, f"a file to import; it {problem} — {cure}")
        self.args = (f"{file} {problem} — {cure}",)


@dataclass(slots=True)
class Document:
    """An opened file. ``value`` is the parsed JSON, for ``jsonl`` the objects in its lines.

    ``names`` are the parts of an archive and ``mimetype`` what it says of itself; ``cure`` is what to do
    where it is not sound.
    """

    name: str
    data: bytes
    kind: Literal["png", "zip", "rtf", "json", "jsonl", "text"]
    text: str = ""
    value: Any = None
    names: frozenset[str] = frozenset()
    mimetype: str = ""
    cure: str = "open it in the program that made it and save it once more"
    notices: list[str] = field(default_factory=list[str])
    _left: int = field(default_factory=lambda: MOST_UNPACKED)

    @property
    def object(self) -> JsonObject:
        """The top-level JSON object, or the first line's; else empty."""
        return as_object(self.value[0] if self.kind == "jsonl" else self.value)

    def tell(self, words: str) -> None:
        """Have the writer know; the same words once."""
        if words not in self.notices:
            self.notices.append(words)

    def part(self, name: str) -> bytes:
        """Return a part of the archive. Raises NotForUs for one that is missing, damaged or too large."""
        if name not in self.names:
            raise NotForUs(self.name, f"is not sound ({name} is missing)", self.cure)
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
                self._left -= archive.getinfo(name).file_size
                if self._left >= 0:
                    return archive.read(name)  # never more than the size that it gives
        except Exception as error:  # what zipfile raises has no class in common
            raise NotForUs(self.name, f"is not sound ({name}: {error})", self.cure) from error
        problem = f"unpacks to more than {MOST_UNPACKED >> 20} MiB"
        raise NotForUs(self.name, problem, "export its text alone, as .txt")

    def xml(self, name: str) -> Element:
        """Return the root of a part in XML. Raises NotForUs."""
        return parse_xml(self.part(name), f"{self.name}, {name}", self.cure)

    def xml_if_any(self, name: str) -> Element:
        """The same, or an empty element where there is no such part."""
        return self.xml(name) if name in self.names else Element("none")


def parse_xml(data: bytes, name: str, cure: str) -> Element:
    """Return the root of ``data``. Raises NotForUs; entities are refused, since a few expand to gigabytes."""
    try:
        if b"<!ENTITY" in data.replace(b"\0", b""):
            raise ValueError("it declares entities, which are not expanded here")
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise NotForUs(name, f"is not sound ({error})", cure) from error


def open_document(data: bytes, name: str, encoding: str = "") -> Document:
    """Find out what the bytes are; ``encoding`` is that of a text not in UTF. Raises FormatError."""
    if not data.strip():
        raise NotForUs(name, "is empty", "there is nothing to import")
    for magic, problem, cure in _REFUSED:
        if data.startswith(magic):
            raise NotForUs(name, problem, cure)
    if data[60:68] == b"BOOKMOBI":
        raise NotForUs(name, "is a Kindle book", _WORDS_ONLY)
    if not encoding and data.startswith((PNG, b"{\\rtf")):
        return Document(name, data, "png" if data.startswith(PNG) else "rtf")
    if not encoding and data.startswith(b"PK\x03\x04"):
        return _open_zip(data, name)
    document = Document(name, data, "text", decode(data, name, encoding))
    text = document.text
    head = text[:4_000].lstrip()
    if re.match(r'\{\s*["}]|\[\s*\{', head):
        first, _, others = text.strip().partition("\n")
        try:
            if others and first.rstrip().endswith("}"):
                document.kind, document.value = "jsonl", _json_lines(document)
            else:
                document.kind, document.value = "json", parse_json(text, name)
        except FormatError as error:
            raise FormatError(name, error.place, f"{error.expected} — if it is a text, {AS_TEXT}") from error
    elif head.startswith("<?xml") and not re.search(r"<html\b", head, re.IGNORECASE):
        problem = "is XML of a program that is not known here"
        raise NotForUs(name, problem, f"{_WORDS_ONLY}; {AS_TEXT}")
    return document


def refuse_unknown(document: Document) -> NoReturn:
    """Raise NotForUs for a file that no format takes: what it is."""
    if document.kind == "zip":
        problem = "is an archive (ZIP), and no document that is known here"
        raise NotForUs(document.name, problem, "unpack it, or save the document as .docx")
    held = ", ".join(sorted(document.object)[:12]) or "no keys"
    problem = f"is JSON with {held} at the top level, and of no story format that is known here"
    raise NotForUs(document.name, problem, AS_TEXT, "the top level")


def _open_zip(data: bytes, name: str) -> Document:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = frozenset(archive.namelist())
            mimetype = archive.open("mimetype").read(100) if "mimetype" in names else b""
    except Exception as error:
        raise NotForUs(name, f"is a broken archive ({error})", "copy it again from where it came") from error
    return Document(name, data, "zip", names=names, mimetype=mimetype.decode("latin-1").strip())


# -- text and JSON ------------------------------------------------------------------------------------


def decode(data: bytes, name: str, encoding: str = "") -> str:
    """Return the text in ``data``. Raises FormatError if it is not in ``encoding``, or in UTF without one."""
    known = next((of for bom, of in _BOMS.items() if data.startswith(bom)), "utf-8")
    try:
        text = data.decode(encoding or known).removeprefix("\ufeff")
        if "\0" not in text:
            return text
        at, problem = data.index(b"\0"), "has zeros in it, and no text has"
    except UnicodeDecodeError as error:
        at, problem = error.start, f"is no text in {encoding or 'UTF-8'}"
    except LookupError as error:
        cure = "name one that Python knows, such as cp1252, latin-1, utf-16, koi8-r, shift_jis or big5"
        raise NotForUs(name, f"was not read: {encoding} is no encoding of text", cure) from error
    named = "another encoding" if encoding else "its encoding"
    cure = f"if it is a text, name {named}: `srbwriter import --encoding cp1252` (Western), utf-16-le …"
    raise NotForUs(name, f"{problem} (byte {at})", cure, f"byte {at}")


def unix_lines(text: str) -> str:
    """Return the text with line ends of other systems as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_json(text: str, name: str, place: str = "") -> Any:
    """Return the JSON in a text. Raises FormatError with line and column.

    Half surrogates, which JavaScript writes when it cuts a string inside an emoji, become U+FFFD.
    """
    try:
        value = json.loads(text)
        if re.search(r"\\u[dD][89a-fA-F]", text):
            value = json.loads(well_formed(json.dumps(value, ensure_ascii=False)))
        return value
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise FormatError(name, f"{place}, {where}" if place else where, f"JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, or a tree too deep
        raise FormatError(name, place or "the file", f"JSON of a sane size ({error})") from error


def _json_lines(document: Document) -> list[JsonObject]:
    """Return the objects in the lines; one that is cut off where a program was killed is left out."""
    values: list[JsonObject] = []
    for number, line in enumerate(document.text.split("\n"), 1):
        try:
            values += [as_object(parse_json(line, document.name))] if line.strip() else []
        except FormatError as error:
            if not values:
                raise
            document.tell(f"line {number}: left out; it is not {error.expected}")
    return values
