"""File formats: bytes to :class:`~srbwriter.story.draft.StoryDraft` and back.

One small module per format and one table of them, in the order in which files are tried.  A format
is recognised by what is in a file, never by its name.  Nothing here opens or writes a file, and
nothing knows the store or a screen.
"""

from __future__ import annotations

from pathlib import Path

from srbwriter.story.draft import DraftError, StoryDraft, check_draft, without_deleted
from srbwriter.story.formats import (
    aidungeon,
    basemode,
    card,
    epub,
    exoloom,
    html,
    kobold,
    kobold_v2,
    logitloom,
    loom,
    loomsidian,
    markdown,
    mikupad,
    novelai,
    own,
    sillytavern,
    tapestry,
    text,
    worldinfo,
)
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import check_depth, tell_faults
from srbwriter.story.formats.document import Document, open_document
from srbwriter.story.formats.errors import FormatError
from srbwriter.story.types import Progress, untold

FORMATS: tuple[Format, ...] = (
    own.FORMAT,
    tapestry.FORMAT,
    exoloom.FORMAT,
    logitloom.FORMAT,
    novelai.STORY,
    novelai.SCENARIO,
    novelai.LOREBOOK,
    kobold_v2.FORMAT,
    kobold.FORMAT,
    aidungeon.CARDS,
    aidungeon.ADVENTURE,
    card.FORMAT,
    sillytavern.FORMAT,
    worldinfo.FORMAT,
    mikupad.FORMAT,
    loomsidian.FORMAT,
    basemode.FORMAT,
    loom.FORMAT,
    markdown.FORMAT,
    text.FORMAT,
    html.FORMAT,
    epub.FORMAT,
)
"""Every format, the most telling keys first: a file belongs to the first that matches."""

_SQLITE = b"SQLite format 3\0"


def by_name(name: str) -> Format:
    """The format called ``name``.  Raises :class:`KeyError`, naming the formats there are."""
    for form in FORMATS:
        if form.name == name:
            return form
    raise KeyError(f"no format {name!r}; there are {', '.join(form.name for form in FORMATS)}")


def writable() -> tuple[Format, ...]:
    """The formats that a story can be exported to."""
    return tuple(form for form in FORMATS if form.can_export)


def for_file(file: Path) -> Format | None:
    """The format to export to that a file's name says; case does not matter.

    The first of the extension, unless the name of another stands before it, as in ``tree.loom.json``.
    """
    fits = [form for form in writable() if form.extension == file.suffix.lower()]
    named = Path(file.stem).suffix.lower().removeprefix(".")
    return next((form for form in fits if form.name == named), fits[0] if fits else None)


def no_extension(file: Path) -> str:
    """In words: the name of ``file`` ends like no format's, and how it could."""
    known = " ".join(dict.fromkeys(form.extension for form in writable()))
    return f"{file}: no format has the extension {file.suffix or '(none)'}; use one of {known}"


def detect(data: bytes, name: str = "the file") -> Format:
    """The format of a file.  Raises :class:`FormatError` when it is none of the table."""
    return _match(_open(data, name))


def read(data: bytes, name: str, progress: Progress = untold) -> StoryDraft:
    """The story in a file; ``name`` is only for messages.

    Things the writer should be told are in ``draft.meta["notices"]``.  Raises :class:`FormatError`.
    """
    document = _open(data, name)
    progress(0.5)
    form = _match(document)
    assert form.read is not None  # formats that match can read
    draft = form.read(document)
    tell_faults(draft, document.faults, form.name)
    for node in draft.nodes:
        check_depth(node.meta, name, f"node {node.id}")
    check_depth(draft.meta, name, "the top level")
    try:
        check_draft(draft)
    except DraftError as error:
        raise FormatError(name, "the nodes", f"a tree ({error})") from error
    return draft


def write(draft: StoryDraft, format_name: str) -> bytes:
    """The story in a format that can be exported.  Raises :class:`KeyError` and :class:`DraftError`."""
    form = by_name(format_name)
    if form.write is None:
        names = ", ".join(other.name for other in writable())
        raise KeyError(f"{format_name!r} can only be imported; export to one of {names}")
    check_draft(draft)
    return form.write(draft if form.keeps_bin else without_deleted(draft))


def _open(data: bytes, name: str) -> Document:
    if data.startswith(_SQLITE):
        raise FormatError(name, "byte 0", "a file to import; this is a database: if it is a story, open it")
    return open_document(data, name)


def _match(document: Document) -> Format:
    for form in FORMATS:
        if form.matches is not None and form.matches(document):
            return form
    keys = ", ".join(sorted(document.keys)[:12]) or "none"
    raise FormatError(document.name, "the top level", f"the keys of a known story format; found {keys}")


__all__ = [
    "FORMATS",
    "Format",
    "FormatError",
    "by_name",
    "detect",
    "for_file",
    "no_extension",
    "read",
    "writable",
    "write",
]
