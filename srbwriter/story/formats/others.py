"""Refusals in words: six kinds of files that cannot be read, and files of no format that is known here.

Files are recognised by their content. The cures name common programs; nothing here runs them.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from srbwriter.story.formats.base import AS_TEXT, Document, NotForUs
from srbwriter.story.model import as_list, counted

_WORDS_ONLY = "export its text as .txt, .html or .docx, and import that"
_UNPACK = "unpack it, and import what is in it"
_ARCHIVES = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
_HEAD = 4_000  # characters in which the root element of a page in XHTML must begin


def refuse_bytes(data: bytes, name: str) -> None:
    """Raise :class:`NotForUs` for what its first bytes show to be nothing that can be read."""
    if not data:
        raise NotForUs(name, "is empty", "there is nothing to import")
    if data.startswith(b"SQLite format 3\0"):
        raise NotForUs(name, "is a database", "if it is a story, open it; it needs no import")
    if data.startswith(b"%PDF-"):
        problem = "is a PDF, which has places of letters and no text"
        raise NotForUs(name, problem, "import what it was made from")
    if data.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        problem = "is an old Word file (.doc), or one with a password"
        raise NotForUs(name, problem, "save it as .docx, without a password")
    if data.startswith(_ARCHIVES):
        raise NotForUs(name, "is compressed, or an archive", _UNPACK)
    if data[60:68] == b"BOOKMOBI":
        raise NotForUs(name, "is a Kindle book", _WORDS_ONLY)


def refuse_text(document: Document) -> None:
    """Raise :class:`NotForUs` for a text without words, and for XML, which would come in as its source."""
    if document.kind != "text":
        return
    if not document.text.strip():
        raise NotForUs(document.name, "holds nothing but white space", "there is nothing to import")
    head = document.text[:_HEAD]
    if head.lstrip().startswith("<?xml") and not re.search(r"<html\b", head, re.IGNORECASE):
        problem = "is XML of a program that is not known here"
        raise NotForUs(document.name, problem, f"{_WORDS_ONLY}; {AS_TEXT}")


def refuse_unknown(document: Document) -> NoReturn:
    """Raise :class:`NotForUs` for a file that no format takes: what it is."""
    if document.kind == "zip":
        problem = "is an archive (ZIP), and no document that is known here"
        raise NotForUs(document.name, problem, f"{_UNPACK}, or save the document as .docx")
    value: Any = document.value
    if isinstance(value, list):
        held = f"a JSON list of {counted(len(as_list(value)), 'item')}"
    else:
        held = f"JSON with {', '.join(sorted(document.keys)[:12]) or 'no keys'} at the top level"
    problem = f"is {held}, and of no story format that is known here"
    raise NotForUs(document.name, problem, AS_TEXT, "the top level")
