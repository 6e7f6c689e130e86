"""Opens the bytes of a file as a picture, an archive, RTF, JSON or text, or says in words why not.

An encoding that is not UTF is never guessed, because a wrong guess puts wrong letters into a story: the error
names the likely one and the option that sets it.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from srbwriter.story.model import JsonObject, as_list, as_object, counted
from srbwriter.story.words import well_formed

AS_TEXT = "`srbwriter import --format text` takes it as it stands"
PNG = b"\x89PNG\r\n\x1a\n"
MOST_UNPACKED = 1 << 28  # bytes of all parts of an archive that are read
_MOST_TOLD = 20  # notices of one file

BROKEN_ZIP = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, zlib.error, LookupError,
    ValueError,
)  # fmt: skip
"""What opening and reading an archive raises where it is not sound."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OTHERS = ("cp1251", "koi8_r", "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp1253", "cp1255", "cp1256")
_TEXT_CONTROLS = frozenset(b"\t\n\x0c\r\x1a\x1b")
_WORDS_ONLY = "export its text as .txt, .html or .docx, and import that"
_REFUSED = (
    (b"SQLite format 3\0", "is a database", "if it is a story, open it; it needs no import"),
    (b"%PDF-", "is a PDF, which has places of letters and no text", "import what it was made from"),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "is an old Word file (.doc), or one with a password",
        "save it as .docx, without a password",
    ),
    *(
        (magic, "is compressed, or an archive", "unpack it, and import what is in it")
        for magic in (
            b"\x1f\x8b",
            b"BZh",
            b"\xfd7zXZ\0",
            b"\x28\xb5\x2f\xfd",
            b"7z\xbc\xaf\x27\x1c",
            b"Rar!\x1a\x07",
        )
    ),
)


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
    """An opened file. ``value`` is the parsed JSON, for ``jsonl`` the objects in its lines by line number.

    ``names`` are the parts of an archive and ``mimetype`` what it says of itself.
    """

    name: str
    data: bytes
    kind: Literal["png", "zip", "rtf", "json", "jsonl", "text"]
    text: str = ""
    value: Any = None
    names: frozenset[str] = frozenset()
    mimetype: str = ""
    told: dict[str, None] = field(default_factory=dict[str, None])
    _left: int = field(default_factory=lambda: MOST_UNPACKED)

    @property
    def object(self) -> JsonObject:
        """The top-level JSON object, or the first line's; else empty."""
        first = next(iter(self.value.values()), None) if self.kind == "jsonl" else self.value
        return as_object(first)

    def tell(self, words: str) -> None:
        """Have the writer know; the same words once."""
        self.told[words] = None

    @property
    def notices(self) -> list[str]:
        told = list(self.told)
        more = len(told) - _MOST_TOLD
        return told if more <= 0 else [*told[:_MOST_TOLD], f"and {more} more like these"]

    def part(self, name: str, cure: str) -> bytes:
        """Return a part of the archive. Raises NotForUs for one that is missing, damaged or too large."""
        if name not in self.names:
            raise NotForUs(self.name, f"is not sound ({name} is missing)", cure)
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
                self._left -= archive.getinfo(name).file_size
                if self._left >= 0:
                    return archive.read(name)  # never more than the size that it gives
        except BROKEN_ZIP as error:
            raise NotForUs(self.name, f"is not sound ({name}: {error})", cure) from error
        problem = f"unpacks to more than {MOST_UNPACKED >> 20} MiB"
        raise NotForUs(self.name, problem, "export its text alone, as .txt")

    def xml(self, name: str, cure: str) -> Element:
        """Return the root of a part in XML. Raises NotForUs."""
        return parse_xml(self.part(name, cure), f"{self.name}, {name}", cure)


def parse_xml(data: bytes, name: str, cure: str) -> Element:
    """Return the root of ``data``. Raises NotForUs; entities are refused, since a few expand to gigabytes."""
    try:
        if b"<!ENTITY" in data.replace(b"\0", b""):
            raise ValueError("it declares entities, which are not expanded here")
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise NotForUs(name, f"is not sound ({error})", cure) from error


def open_document(data: bytes, name: str, encoding: str = "", *, as_text: bool = False) -> Document:
    """Find out what the bytes are; ``encoding`` is that of a text not in UTF. Raises FormatError."""
    if as_text:
        return Document(name, data, "text", decode(data, name, encoding))
    _refuse_bytes(data, name)
    if not encoding and data.startswith(PNG):
        return Document(name, data, "png")
    if not encoding and data.startswith(b"PK\x03\x04"):
        return _open_zip(data, name)
    if not encoding and data.startswith(b"{\\rtf"):
        return Document(name, data, "rtf")
    text = decode(data, name, encoding)
    document = Document(name, data, "text", text)
    if (lines := _json_lines(document)) is not None:
        document.kind, document.value = "jsonl", lines
    elif _may_be_json(text):
        document.kind, document.value = "json", _whole_json(text, name)
    else:
        _refuse_text(document)
    return document


def _refuse_bytes(data: bytes, name: str) -> None:
    if not data:
        raise NotForUs(name, "is empty", "there is nothing to import")
    for magic, problem, cure in _REFUSED:
        if data.startswith(magic):
            raise NotForUs(name, problem, cure)
    if data[60:68] == b"BOOKMOBI":
        raise NotForUs(name, "is a Kindle book", _WORDS_ONLY)


def _refuse_text(document: Document) -> None:
    """Refuse a text without words, and XML of other programs, which would come in as its source."""
    head = document.text[:4_000].lstrip()
    if not head and not document.text.strip():
        raise NotForUs(document.name, "holds nothing but white space", "there is nothing to import")
    if head.startswith("<?xml") and not re.search(r"<html\b", head, re.IGNORECASE):
        problem = "is XML of a program that is not known here"
        raise NotForUs(document.name, problem, f"{_WORDS_ONLY}; {AS_TEXT}")


def refuse_unknown(document: Document) -> NoReturn:
    """Raise NotForUs for a file that no format takes: what it is."""
    if document.kind == "zip":
        problem = "is an archive (ZIP), and no document that is known here"
        raise NotForUs(document.name, problem, "unpack it, or save the document as .docx")
    value = document.value
    if isinstance(value, list):
        held = f"a JSON list of {counted(len(as_list(value)), 'item')}"
    else:
        held = f"JSON with {', '.join(sorted(document.object)[:12]) or 'no keys'} at the top level"
    problem = f"is {held}, and of no story format that is known here"
    raise NotForUs(document.name, problem, AS_TEXT, "the top level")


def _open_zip(data: bytes, name: str) -> Document:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = frozenset(archive.namelist())
            mimetype = archive.open("mimetype").read(100) if "mimetype" in names else b""
    except BROKEN_ZIP as error:
        raise NotForUs(name, f"is a broken archive ({error})", "copy it again from where it came") from error
    return Document(name, data, "zip", names=names, mimetype=mimetype.decode("latin-1").strip())


# -- text ---------------------------------------------------------------------------------------------


def decode(data: bytes, name: str, encoding: str = "") -> str:
    """Return the text in ``data``. Raises FormatError if it is not in ``encoding``, or in UTF without one."""
    known, start = next(((of, len(bom)) for bom, of in _BOMS if data.startswith(bom)), ("utf-8", 0))
    try:
        text = data.decode(encoding).removeprefix("\ufeff") if encoding else data[start:].decode(known)
    except UnicodeDecodeError as error:
        if encoding:
            raise FormatError(
                name, f"byte {error.start}", f"a text in {encoding}, as you named it"
            ) from error
        raise _other_encoding(data, name, start + error.start) from error
    except LookupError as error:
        cure = "name one that Python knows, such as cp1252, latin-1, utf-16, koi8-r, shift_jis or big5"
        raise NotForUs(name, f"was not read: {encoding} is no encoding of text", cure) from error
    if "\0" in text:
        at = data.index(b"\0")
        words = f"a text in {encoding}, as you named it"
        raise FormatError(name, f"byte {at}", words) if encoding else _other_encoding(data, name, at)
    return text


def _other_encoding(data: bytes, name: str, at: int) -> FormatError:
    """Return the error for a text that is not in UTF, which says what it may be in."""
    start = data[: 1 << 16]
    if start.count(0) > len(start) * 0.3:  # UTF-16 without its mark has a zero beside every Latin letter
        likely = "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
        start = start.decode(likely, "ignore").encode()
    elif data[at] == 0 and not _is_binary(start):
        problem = f"has zeros in it (the first is byte {at}), and no text has"
        return NotForUs(name, problem, "take them out: tr -d '\\0' < OLD > NEW", f"byte {at}")
    elif sum(byte > 127 for byte in start) < len(start) * 0.3:
        likely = "cp1252"
    else:  # most letters are no Latin ones
        from charset_normalizer import from_bytes  # only needed for this message

        best = from_bytes(start, cp_isolation=list(_OTHERS)).best()
        likely = best.encoding.replace("_", "-") if best is not None else "cp1252"
    if _is_binary(start):
        return FormatError(name, f"byte {at}", "a text in UTF-8, JSON, or a PNG card")
    problem = f"is not in UTF-8 (byte {at}) and reads like {likely.upper()}"
    return NotForUs(name, problem, f"`srbwriter import --encoding {likely}` reads it", f"byte {at}")


def _is_binary(data: bytes) -> bool:
    """Whether there are control characters, zeros apart, that no text has."""
    return sum(0 < byte < 32 and byte not in _TEXT_CONTROLS for byte in data) > len(data) // 200


def unix_lines(text: str) -> str:
    """Return the text with line ends of other systems as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


# -- JSON ---------------------------------------------------------------------------------------------


def parse_json(text: str, name: str, place: str = "") -> Any:
    """Return JSON of any depth. Raises FormatError with line and column.

    Half surrogates, which JavaScript writes when it cuts a string inside an emoji, become U+FFFD.
    """
    if re.search(r"\\u[dD][89a-fA-F]", text):
        text = re.sub(r"\\\\|(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+", _mend_escapes, text)
    try:
        return json.loads(text)
    except RecursionError:
        return _parse_deep(text, name, place)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise FormatError(name, f"{place}, {where}" if place else where, f"JSON ({error.msg})") from error
    except ValueError as error:  # an integer of thousands of digits
        raise FormatError(name, place or "the file", f"JSON with numbers of a sane size ({error})") from error


def _mend_escapes(found: re.Match[str]) -> str:
    if found[0] == r"\\":
        return found[0]
    units = bytes.fromhex(found[0].replace("\\u", ""))
    return json.dumps(well_formed(units.decode("utf-16-be", "surrogatepass")))[1:-1]


def _parse_deep(text: str, name: str, place: str) -> Any:
    """Like ``json.loads`` but not by recursion: a tree may be nested as deep as a novel is long."""
    import ijson

    library = cast(Any, ijson)  # has no types
    builder = library.ObjectBuilder()
    try:
        for event, value in library.basic_parse(text.encode("utf-8", "replace"), use_float=True):
            builder.event(event, value)
    except library.JSONError as error:
        raise FormatError(name, place or "the file", f"JSON ({str(error).splitlines()[0]})") from error
    return builder.value


def _whole_json(text: str, name: str) -> Any:
    try:
        return parse_json(text, name)
    except FormatError as error:
        raise FormatError(name, error.place, f"{error.expected} — if it is a text, {AS_TEXT}") from error


def _may_be_json(text: str) -> bool:
    """Whether a text can only be meant as JSON; ``[[a page]]`` is one of Markdown."""
    return bool(re.match(r'\s*(\{\s*("|\})|\[\s*\{)', text)) or (
        text.lstrip().startswith("[") and _is_json(text)
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json_lines(document: Document) -> dict[int, JsonObject] | None:
    """Return the objects in the lines, by number, if the first two show that there are any.

    A line that is no object, such as one cut off where a program was killed, is left out with a notice.
    """
    lines = [(number, line) for number, line in enumerate(document.text.split("\n"), 1) if line.strip()]
    if len(lines) < 2:
        return None
    first, second = (line.strip()[-1:] == "}" and _is_json(line) for _, line in lines[:2])
    rest_fits = all(line.lstrip().startswith("{") for _, line in lines[1:])
    if not (first or (second and rest_fits and not _is_json(document.text))):
        return None
    values: dict[int, JsonObject] = {}
    for number, line in lines:
        try:
            values[number] = as_object(parse_json(line, document.name, f"line {number}"))
        except FormatError as error:
            document.tell(f"{error.place}: left out; it is not {error.expected}")
    return values
