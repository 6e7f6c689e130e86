"""Known formats that cannot be read, each with a name and a cure for its owner.

Without this table their source code would be imported as prose. They are recognised by their content. The
cures name common programs; nothing here runs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from srbwriter.story.formats.base import AS_TEXT, Document, NotForUs
from srbwriter.story.model import as_list, as_object, counted

_AS_DOCX = "save it as .docx, .html or .txt where it comes from"
_PANDOC = "or turn it into Markdown: pandoc -t markdown"
_UNPACK = "unpack it, and import what is in it"
_WORDS_ONLY = "export its text as .txt, .html or .docx, and import that"


class _Other(NamedTuple):
    """What a file is, in words that follow "is", and the cure."""

    what: str
    cure: str


_SIGNATURES: tuple[tuple[bytes, _Other], ...] = (
    (b"SQLite format 3\0", _Other("a database", "if it is a story, open it; it needs no import")),
    (b"%PDF-", _Other("a PDF, which has places of letters and no text", "import what it was made from")),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        _Other("an old Word file (.doc), or one with a password", "save it as .docx, without a password"),
    ),
    (b"\x1f\x8b", _Other("compressed (gzip)", _UNPACK)),
    (b"BZh", _Other("compressed (bzip2)", _UNPACK)),
    (b"\xfd7zXZ\0", _Other("compressed (xz)", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", _Other("compressed (zstd)", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", _Other("an archive (7z)", _UNPACK)),
    (b"Rar!\x1a\x07", _Other("an archive (RAR)", _UNPACK)),
    (b"\xff\xd8\xff", _Other("a picture (JPEG)", "of pictures only character cards in PNG can be imported")),
    (b"GIF8", _Other("a picture (GIF)", "of pictures only character cards in PNG can be imported")),
)

_ODF = "application/vnd.oasis.opendocument."
_ZIPPED: tuple[tuple[Callable[[frozenset[str], str], bool], _Other], ...] = (
    (lambda names, kind: kind.startswith(_ODF), _Other("an OpenDocument file, but no text", _WORDS_ONLY)),
    (
        lambda names, kind: any(name.endswith(".iwa") for name in names),
        _Other("a Pages document", "export it from Pages as Word (.docx)"),
    ),
    (
        lambda names, kind: "[Content_Types].xml" in names,
        _Other("an Office file, but no Word document of today's kind", "save it as .docx"),
    ),
    (lambda names, kind: True, _Other("an archive (ZIP)", _UNPACK)),
)


def _all(*regexes: str) -> Callable[[str], bool]:
    tests = [re.compile(regex, re.MULTILINE) for regex in regexes]
    return lambda text: all(test.search(text) for test in tests)


_HEAD = 4_000  # characters in which the root element of XML must begin
_NO_TREE = "its passages lead to each other and back, which no tree can hold"
_TEXTS: tuple[tuple[Callable[[str], bool], _Other], ...] = (
    (
        _all(r"<tw-storydata\b"),
        _Other("a Twine story", f"{_NO_TREE}; import its proofing copy (in Twine: Build, Proof)"),
    ),
    (
        _all(r"\A\s*::[ \t]*\S", r"^::[ \t]*(?:StoryTitle|StoryData|Start)\b|\[\[[^\]\n]+\]\]"),
        _Other(
            "Twee, the source of a Twine story",
            f"{_NO_TREE}; import the proofing copy that Twine makes of it; {AS_TEXT}",
        ),
    ),
    (
        _all(
            r"^={2,}[ \t]*(?:function[ \t]+)?\w+[ \t]*(?:\([^)\n]*\))?[ \t]*=*[ \t]*$",
            r"->[ \t]*\w[\w.]*[ \t]*$",
        ),
        _Other("Ink, the source of a story that is played", f"it is a program and no text; {AS_TEXT}"),
    ),
    (
        _all(r"^[ \t]*\\documentclass\b"),
        _Other("LaTeX", f"turn it into Markdown: pandoc -f latex -t markdown; {AS_TEXT}"),
    ),
)
_XML: tuple[tuple[str, _Other], ...] = (
    ("<FictionBook", _Other("a FictionBook (.fb2)", "turn it into Markdown: pandoc -f fb2 -t markdown")),
    (
        "<ScrivenerProject",
        _Other("the table of contents of a Scrivener project", "import the folder that it is in, NAME.scriv"),
    ),
    ("<FinalDraft", _Other("a Final Draft script (.fdx)", "export it as text or Fountain, and import that")),
    ("office:document", _Other("a flat OpenDocument text (.fodt)", _AS_DOCX)),
    ("w:wordDocument", _Other("a Word document in XML", "save it as .docx")),
    ("pkg:package", _Other("a Word document in XML", "save it as .docx")),
    ("", _Other("XML of a kind that is not known here", f"{_WORDS_ONLY}; {AS_TEXT}")),
)  # fmt: skip


_MODULE = frozenset({"data", "model", "name", "description"})


def _refuse_json(document: Document) -> NoReturn:
    """Raise :class:`NotForUs` for JSON of no story format, with its kind and its fields."""
    if document.keys >= _MODULE and isinstance(document.object["data"], str):
        what = "a NovelAI module (.module): weights for the models of NovelAI, and no text"
        raise _refusal(document.name, _Other(what, "import the story that it was made from, a .story file"))
    value: Any = document.value
    if isinstance(value, list):
        items = as_list(value)
        if not items:
            held = "with nothing in it"
        elif keys := ", ".join(sorted(as_object(items[0]))[:8]):
            held = f"of {counted(len(items), 'item')} with the keys {keys}"
        else:
            held = f"of {counted(len(items), 'item')} such as {json.dumps(items[0])[:40]}"
        problem = f"is a JSON list {held}, and of no story format that is known here"
    elif isinstance(value, dict):
        keys = ", ".join(sorted(document.keys)[:12]) or "no keys"
        problem = f"is JSON of no story format that is known here: at the top level it has {keys}"
    else:
        problem = "is JSON with one value in it and no story"
    raise NotForUs(document.name, problem, AS_TEXT, "the top level")


def refuse_bytes(data: bytes, name: str) -> None:
    """Raise :class:`NotForUs` for what its first bytes show to be nothing that can be read."""
    if not data:
        raise NotForUs(name, "is empty", "there is nothing to import")
    for signature, other in _SIGNATURES:
        if data.startswith(signature):
            raise _refusal(name, other)
    if data[60:68] == b"BOOKMOBI":
        raise _refusal(name, _Other("a Kindle book", _WORDS_ONLY))


def refuse_unknown(document: Document) -> NoReturn:
    """Raise :class:`NotForUs` for a file that no format takes: what it is."""
    match document.kind:
        case "zip":
            raise _refusal(
                document.name,
                next(other for test, other in _ZIPPED if test(document.names, document.mimetype)),
            )
        case "json" | "jsonl":
            _refuse_json(document)
        case kind:
            what = f"a file ({kind}) of no format that is known here"
            raise _refusal(document.name, _Other(what, _WORDS_ONLY))


def refuse_text(document: Document) -> None:
    """Raise :class:`NotForUs` for a text that is the source of something else."""
    if document.kind != "text":
        return
    if not document.text.strip():
        raise NotForUs(document.name, "holds nothing but white space", "there is nothing to import")
    for test, other in _TEXTS:
        if test(document.text):
            raise _refusal(document.name, other)
    head = document.text[:_HEAD]
    if head.lstrip().startswith("<?xml") and not re.search(r"<html\b", head, re.IGNORECASE):
        raise _refusal(document.name, next(other for mark, other in _XML if mark in head))


def _refusal(name: str, other: _Other) -> NotForUs:
    return NotForUs(name, f"is {other.what}", other.cure)
