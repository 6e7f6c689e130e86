"""The bytes of a file, opened once: a picture, an archive, a weave, JSON, JSON lines or text.

This is all that detection looks at.  It knows no story format.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any, cast

import ijson

from srbwriter.story.formats.base import AS_TEXT, Document, Fault, FormatError, NotForUs
from srbwriter.story.formats.encoding import decode
from srbwriter.story.model import as_list, as_object

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
ZIP_SIGNATURE = b"PK\x03\x04"
RTF_SIGNATURE = b"{\\rtf"

BROKEN_ZIP = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, zlib.error, LookupError,
    ValueError,
)  # fmt: skip
"""What opening and reading an archive raises where it is not sound."""

_MOST_MIMETYPE = 100  # bytes of the name of a media type
_LOOKS_LIKE_JSON = re.compile(r'\s*(\{\s*("|\})|\[\s*[\[{"\]])')
_MAY_BE_MARKDOWN = re.compile(r'\s*\[\s*[\["]')  # [[a page]], ["words in a link"](…)
_BEGINNING = 1_000  # characters in which a text shows that it is no JSON
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def open_document(data: bytes, name: str, encoding: str = "") -> Document:
    """Find out what kind of file the bytes are; ``encoding`` is that of a text which is not in UTF.

    Raises :class:`FormatError` if they are none of ours.
    """
    if not encoding and data.startswith(PNG_SIGNATURE):
        return Document(name, data, "png")
    if not encoding and data.startswith(ZIP_SIGNATURE):
        return _open_zip(data, name)
    if not encoding and data.startswith(RTF_SIGNATURE):
        return Document(name, data, "rtf")
    text = decode(data, name, encoding)
    faults: list[Fault] = []
    lines = None if _is_markdown(text) else _json_lines(text, name, faults)
    if lines is None and (not _may_be_json(text) or _is_markdown(text)):
        return Document(name, data, "text", text)
    if lines is not None:
        return Document(name, data, "jsonl", text, list(lines.values()), tuple(lines), faults=faults)
    return Document(name, data, "json", text, _whole_json(text, name))


def _open_zip(data: bytes, name: str) -> Document:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = frozenset(archive.namelist())
            mimetype = archive.open("mimetype").read(_MOST_MIMETYPE) if "mimetype" in names else b""
    except BROKEN_ZIP as error:
        raise NotForUs(name, f"is a broken archive ({error})", "copy it again from where it came") from error
    return Document(name, data, "zip", names=names, mimetype=mimetype.decode("latin-1").strip())


def _may_be_json(text: str) -> bool:
    """Whether a text begins like JSON that holds a story, or is a JSON list of anything: ``[1, 2]``."""
    if _LOOKS_LIKE_JSON.match(text):
        return True
    return text.lstrip().startswith("[") and text.rstrip().endswith("]") and _is_json(text)


def _whole_json(text: str, name: str) -> Any:
    try:
        return parse_json(text, name)
    except FormatError as error:
        raise FormatError(name, error.place, f"{error.expected} — if it is a text, {AS_TEXT}") from error


def parse_json(text: str, name: str, place: str = "") -> Any:
    """JSON of any depth; raises :class:`FormatError` with line and column.

    Half surrogates, which JavaScript writes when it cuts a string inside an emoji, become U+FFFD.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        value = _parse_deep(text, name, place)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise FormatError(name, f"{place}, {where}" if place else where, f"JSON ({error.msg})") from error
    except ValueError as error:  # an integer of thousands of digits
        raise FormatError(name, place or "the file", f"JSON with numbers of a sane size ({error})") from error
    return _mend_all(value) if _SURROGATE_ESCAPE.search(text) else value


def _is_markdown(text: str) -> bool:
    """Whether a text that may be either is no JSON from its beginning on; a broken end is one of JSON."""
    if not _MAY_BE_MARKDOWN.match(text):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        cut_off = error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())
        return not cut_off and error.pos < _BEGINNING
    except (ValueError, RecursionError):
        return False
    return False


def _json_lines(text: str, name: str, faults: list[Fault]) -> dict[int, Any] | None:
    """The lines as values, by number, if one of the first two of several is an object, else ``None``.

    A line that is no JSON, such as one cut off where a program was killed, is left out.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) < 2 or not any(_is_object(line) for _, line in lines[:2]):
        return None
    if not _is_object(lines[0][1]) and (_is_json(text) or not _mostly_objects(lines)):
        return None
    values: dict[int, Any] = {}
    for number, line in lines:
        try:
            values[number] = parse_json(line, name, f"line {number}")
        except FormatError as error:
            faults.append(Fault(error.place, f"left out; it is not {error.expected}"))
    return values


def _is_object(line: str) -> bool:
    line = line.strip()
    return line.startswith("{") and line.endswith("}") and _is_json(line)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _mostly_objects(lines: list[tuple[int, str]]) -> bool:
    """Whether all lines but the first look like objects, but for a cut off last one."""
    return all(line.lstrip().startswith("{") for _, line in lines[1:])


def _parse_deep(text: str, name: str, place: str) -> Any:
    """Like ``json.loads`` but not by recursion: a tree nested as deep as a novel is long."""
    library = cast(Any, ijson)  # has no types
    builder = library.ObjectBuilder()
    try:
        for event, value in library.basic_parse(text.encode("utf-8", "replace"), use_float=True):
            builder.event(event, value)
    except library.JSONError as error:
        raise FormatError(name, place or "the file", f"JSON ({str(error).splitlines()[0]})") from error
    return builder.value


def _mend_all(value: Any) -> Any:
    holder: list[Any] = [value]
    stack: list[Any] = [holder]
    while stack:
        container = stack.pop()
        pairs: Iterable[tuple[Any, Any]] = (
            as_object(container).items() if isinstance(container, dict) else enumerate(as_list(container))
        )
        for key, item in list(pairs):
            if isinstance(item, dict | list):
                stack.append(item)
            container[key] = mend(item) if isinstance(item, str) else item
            if isinstance(key, str) and mend(key) != key:
                as_object(container)[mend(key)] = as_object(container).pop(key)
    return holder[0]


def mend(text: str) -> str:
    """Text that can be stored: half surrogates become U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)
