"""The leaf check: nothing that a foreign file says may be lost on the way in.

A file is opened into plain values, and its *leaves* (every text, number and truth value in it, and the
names of the members of objects) are changed one at a time.  If the story that is read then is the same as
before, nobody read that leaf and nobody kept it: it is lost.  A changed leaf that makes the file
unreadable, or hangs a node elsewhere, was read.  Notices do not count: a value that is only told of is gone.

This finds more than looking for each value in the story does: it sees a lost ``true`` or ``0``, which occur
everywhere, and it takes a value for kept that became another (``"USER"`` an author, a date a number).

>>> lost_leaves("loom", data)
['chapters.c2 (its name)', 'chapters.c2.title']
"""

from __future__ import annotations

import base64
import binascii
import copy
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from srbwriter.story.model import StoryDraft
from tests.story.tapestry_file import PLUGIN, note

Path = tuple[str | int, ...]

OF_THE_NAME = " (its name)"

_SECRET = "a key for a service is left out, and told: stories are shown to others"

EXCUSED: dict[str, dict[str, str]] = {
    "kobold": {
        "savedsettings.*_key": _SECRET,
    },
    "mikupad": {
        "endpointAPIKey": _SECRET,
        "Sessions.*.value.endpointAPIKey": _SECRET,
    },
    "loomsidian": {
        "settings.modelPresets.*.apiKey": _SECRET,
    },
    "docx": {
        "1.lastModifiedBy": "who saved the file last is not about the story",
        "1.revision": "how often the file was saved is not about the story",
    },
    "tapestry": {
        "rootNodes.*": "they are the nodes without a parent; their order is kept",
        "nodeChildren.*": "the parents say the same; the order of siblings is kept",
        "modelNodes.*": "the nodes say the same",
    },
    "loom": {
        "root.*.parent_id": "the nesting says the same",
        "*children.*.parentId": "the nesting says the same",
    },
}
"""Leaves that may be lost: format → pattern of their place (``*`` is anything) → why."""


class Unsayable(Exception):
    """No file of the format can say this."""


@dataclass(slots=True)
class Opened:
    """A file as plain values, and how to make a file of such values again."""

    value: Any
    close: Callable[[Any], bytes]


def lost_leaves(form: str, data: bytes, *, excused: dict[str, str] | None = None) -> list[str]:
    """The places of the leaves of ``data``, a file of the format ``form``, that its import loses.

    ``excused`` are patterns of places with the reason; those of :data:`EXCUSED` if it is not given.
    """
    patterns = EXCUSED.get(form, {}) if excused is None else excused
    return list(_lost(form, data, lambda place: not any(_fits(place, pattern) for pattern in patterns)))


def unused_excuses(form: str, files: list[bytes]) -> set[str]:
    """The excuses of a format that excuse no leaf of any of the files."""
    return {
        pattern
        for pattern in EXCUSED.get(form, {})
        if not any(
            next(_lost(form, data, lambda place, pattern=pattern: _fits(place, pattern)), None)
            for data in files
        )
    }


def _lost(form: str, data: bytes, looked_at: Callable[[str], bool]) -> Iterator[str]:
    """The places of the leaves, of those that are ``looked_at``, that the import loses."""
    opened = open_file(form, data)
    before = _said(data)
    for place, variants in _variants(opened.value):
        if looked_at(place) and not any(_tells(opened, variant, before) for variant in variants):
            yield place


def _fits(place: str, pattern: str) -> bool:
    """A pattern for a value is one for the name it has, too."""
    return fnmatchcase(place.removesuffix(OF_THE_NAME), pattern)


def _tells(opened: Opened, variant: Any, before: StoryDraft) -> bool:
    """Whether the varied file gives another story, or none, or there can be no such file."""
    try:
        return _said(opened.close(variant)) != before
    except (FormatError, Unsayable):
        return True


def _variants(value: Any) -> Iterator[tuple[str, Iterator[Any]]]:
    """Every leaf's place, and the values with this one leaf changed."""
    known = [*_ids(value)]
    for path in places(value):
        here = at(value, path)
        place = ".".join(map(str, path))
        if isinstance(here, dict):
            for key in here:
                yield f"{place}.{key}".lstrip(".") + OF_THE_NAME, iter([_renamed(value, path, key)])
        elif not isinstance(here, list) and here is not None:
            others = [_other(here), *_other_dates(here), *_other_ids(here, known)]
            yield place, (_changed(value, path, other) for other in others)


def _ids(value: Any) -> Iterator[str]:
    """What a link in the file may point to: ids, and the names of members of objects."""
    for path in places(value):
        here = at(value, path)
        if isinstance(here, dict):
            yield from here
            yield from (str(inner) for key, inner in here.items() if key == "id")


def _other_ids(leaf: str | float | bool, known: list[str]) -> list[str | int]:
    """What a link may point to instead; nothing for a leaf that is none."""
    if isinstance(leaf, bool) or str(leaf) not in known:
        return []
    others = [other for other in known if other != str(leaf)]
    if isinstance(leaf, str):
        return [*others]
    return [int(other) for other in others if other.isdecimal()]


def places(value: Any) -> Iterator[Path]:
    """The way to everything in the value, itself first."""
    stack: list[Path] = [()]
    while stack:
        path = stack.pop()
        yield path
        here = at(value, path)
        steps = here if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        stack.extend((*path, step) for step in reversed(list(steps)))


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _said(data: bytes) -> StoryDraft:
    """The story in a file, without the notices."""
    draft = formats.read(data, "file")
    draft.meta.pop("notices", None)
    return draft


def _other(leaf: str | float | bool) -> str | int | float | bool:
    """A value of the same kind, hardly different."""
    match leaf:
        case bool():
            return not leaf
        case int():
            return leaf + 1
        case float():
            return leaf + 0.25
        case str():
            return leaf + "\u2021"


def _other_dates(leaf: str | float | bool) -> list[str]:
    """The same text with another digit: of a date, of which some read no more than they need."""
    if not isinstance(leaf, str) or (digit := re.search(r"\d(?=\D*\Z)", leaf)) is None:
        return []
    return [f"{leaf[: digit.start()]}{(int(digit[0]) + 1) % 10}{leaf[digit.end() :]}"]


def _changed(value: Any, path: Path, new: Any) -> Any:
    """The value with ``new`` at ``path``; what is beside the path is shared by both."""
    if not path:
        return new
    copied = copy.copy(value)
    copied[path[0]] = _changed(value[path[0]], path[1:], new)
    return copied


def _renamed(value: Any, path: Path, key: str) -> Any:
    """A copy in which one member of the object at ``path`` has another name, at the same place."""
    members = at(value, path)
    return _changed(
        value, path, {f"{name}\u2021" if name == key else name: members[name] for name in members}
    )


def open_file(form: str, data: bytes) -> Opened:
    """The file as values in which its leaves can be seen."""
    if data.startswith(_PNG):
        return _open_png(data)
    opener = _OPENERS.get(form)
    if opener is not None:
        return opener(data)
    text = data.decode("utf-8")
    try:
        return Opened(json.loads(text), lambda value: json.dumps(value).encode())
    except ValueError:
        values = [json.loads(line) for line in text.splitlines() if line.strip()]
        return Opened(values, lambda lines: "\n".join(map(json.dumps, lines)).encode())


def _open_packed(data: bytes) -> Opened:
    """mikupad: every value of a session is JSON inside a text; in the export of all nothing is."""
    value = json.loads(data)
    if "Sessions" in value:
        return Opened(value, lambda database: json.dumps(database).encode())

    def close(value: Any) -> bytes:
        return json.dumps({key: json.dumps(inner) for key, inner in value.items()}).encode()

    return Opened({key: json.loads(text) for key, text in value.items()}, close)


def _open_text(data: bytes) -> Opened:
    return Opened([data.decode("utf-8")], lambda values: values[0].encode())


def _open_markdown(data: bytes) -> Opened:
    """The values of the front matter, and the rest as one text."""
    text = data.decode("utf-8")
    front = re.match(r"---\n(.*?\n)---\n", text, re.DOTALL)
    if front is None:
        return _open_text(data)
    fields = dict(line.split(": ", 1) for line in front.group(1).splitlines())
    quoted = {key for key, value in fields.items() if value.startswith('"')}

    def close(value: Any) -> bytes:
        lines = (
            f"{key}: {json.dumps(inner) if key in quoted else inner}\n" for key, inner in value[0].items()
        )
        return f"---\n{''.join(lines)}---\n{value[1]}".encode()

    plain = {key: json.loads(value) if key in quoted else value for key, value in fields.items()}
    return Opened([plain, text[front.end() :]], close)


_PNG = b"\x89PNG\r\n\x1a\n"


def _open_png(data: bytes) -> Opened:
    """The text chunks of a picture, those in base64 as the JSON that is in them."""
    chunks: list[tuple[bytes, bytes]] = []
    offset = len(_PNG)
    while offset < len(data):
        length = int.from_bytes(data[offset : offset + 4])
        chunks.append((data[offset + 4 : offset + 8], data[offset + 8 : offset + 8 + length]))
        offset += 12 + length
    values: dict[str, Any] = {}
    for kind, body in chunks:
        if kind == b"tEXt":
            keyword, _, text = body.partition(b"\0")
            values[keyword.decode()] = json.loads(base64.b64decode(text))

    def close(value: Any) -> bytes:
        return _PNG + b"".join(_png_chunk(kind, body, value) for kind, body in chunks)

    return Opened(values, close)


def _png_chunk(kind: bytes, body: bytes, values: dict[str, Any]) -> bytes:
    if kind == b"tEXt":
        keyword = body.partition(b"\0")[0]
        body = keyword + b"\0" + base64.b64encode(json.dumps(values[keyword.decode()]).encode())
    return len(body).to_bytes(4) + kind + body + binascii.crc32(kind + body).to_bytes(4)


def _open_tapestry(data: bytes) -> Opened:
    """A note of the plugin.  Only the example files: they are what their writer makes."""
    for value, close in (
        (PLUGIN, note),
        (PLUGIN, lambda plugin: note(plugin, compressed=True)),
    ):
        if close(value) == data:
            return Opened(value, close)
    raise AssertionError("no example file")


def _open_lines(data: bytes) -> Opened:
    """A text whose lines say different things."""
    return Opened(data.decode("utf-8").split("\n"), lambda lines: "\n".join(lines).encode())


_TAG = re.compile(r"(<style.*?</style>|<[^>]*>)", re.DOTALL)
_SAYS = re.compile(r'((?:<html lang|name="author" content)=")([^"]*)')


def _open_html(data: bytes) -> Opened:
    """What a page shows, and what its head says of it."""
    pieces = _TAG.split(data.decode("utf-8"))
    words = {str(index): piece for index, piece in enumerate(pieces) if index % 2 == 0 and piece.strip()}
    said = {str(index): found[2] for index, piece in enumerate(pieces) if (found := _SAYS.search(piece))}

    def close(value: Any) -> bytes:
        made = list(pieces)
        for index, text in enumerate(value):
            place = int([*words, *said][index])
            made[place] = _SAYS.sub(lambda match, t=text: match[1] + t, made[place]) if place % 2 else text
        return "".join(made).encode()

    return Opened([*words.values(), *said.values()], close)


_WORDS = re.compile(r"(<w:t(?: [^>]*)?>)([^<]*)(?=</w:t>)")
_PROPERTY = re.compile(r"(<(?:dc|dcterms|cp):(\w+)(?: [^>]*)?>)([^<]*)(?=</)")


def _open_word(data: bytes) -> Opened:
    """The words and the properties of a document."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    body, core = parts["word/document.xml"].decode(), parts["docProps/core.xml"].decode()

    def close(value: Any) -> bytes:
        words, about = iter(value[0]), value[1]
        new = {
            "word/document.xml": _WORDS.sub(lambda match: match[1] + next(words), body),
            "docProps/core.xml": _PROPERTY.sub(lambda match: match[1] + about.get(match[2], ""), core),
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, part in parts.items():
                archive.writestr(name, new.get(name, part))
        return buffer.getvalue()

    found = [match[2] for match in _WORDS.finditer(body)]
    return Opened([found, {match[2]: match[3] for match in _PROPERTY.finditer(core)}], close)


_SAID_IN_XML = re.compile(r"(?<=>)[^<>]*[^<>\s][^<>]*(?=<)")


def _open_parts(data: bytes, *wanted: str) -> Opened:
    """What stands between the tags of some parts of an archive, in a page below its head."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {info: archive.read(info) for info in archive.infolist()}
    texts = {info.filename: part.decode() for info, part in parts.items() if info.filename.endswith(wanted)}
    heads = {name: text.find("</head>") + 1 for name, text in texts.items()}

    def close(value: Any) -> bytes:
        said = {name: iter(words) for name, words in zip(texts, value, strict=True)}
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for info, part in parts.items():
                if (text := texts.get(info.filename)) is not None:
                    head, words = heads[info.filename], said[info.filename]
                    changed = _SAID_IN_XML.sub(lambda _, words=words: next(words), text[head:])
                    part = (text[:head] + changed).encode()
                archive.writestr(info.filename, part)
        return buffer.getvalue()

    return Opened([_SAID_IN_XML.findall(text[heads[name] :]) for name, text in texts.items()], close)


_SAID_IN_RTF = re.compile(r"(?<=[ }])[A-Za-z .,;]{3,}(?=[\\{}])")


def _open_rtf(data: bytes) -> Opened:
    """The words of the text, which follows the first ``\\pard``."""
    text = data.decode("ascii")
    start = text.index("\\pard")

    def close(value: Any) -> bytes:
        words = iter(value)
        made = _SAID_IN_RTF.sub(lambda _: next(words), text[start:])
        return (text[:start] + made).replace("\u2021", "\\u8225?").encode("ascii")

    return Opened(_SAID_IN_RTF.findall(text[start:]), close)


_OPENERS: dict[str, Callable[[bytes], Opened]] = {
    "epub": lambda data: _open_parts(data, ".xhtml", ".opf"),
    "odt": lambda data: _open_parts(data, "content.xml"),
    "rtf": _open_rtf,
    "fountain": _open_lines,
    "html": _open_html,
    "docx": _open_word,
    "tapestry": _open_tapestry,
    "mikupad": _open_packed,
    "markdown": _open_markdown,
    "text": _open_text,
}
