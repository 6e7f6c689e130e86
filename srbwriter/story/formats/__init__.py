"""File formats: bytes to :class:`~srbwriter.story.model.StoryDraft` and back.

One small module per format and one table of them, in the order in which files are tried.  A format
is recognised by what is in a file, never by its name.  Nothing here opens or writes a file, and
nothing knows the store or a screen.
"""

from __future__ import annotations

from pathlib import Path

from srbwriter.story.formats import (
    aidungeon,
    basemode,
    card,
    epub,
    exoloom,
    fountain,
    html,
    kobold,
    kobold_v2,
    logitloom,
    loom,
    loomsidian,
    markdown,
    mikupad,
    novelai,
    others,
    own,
    sillytavern,
    tapestry,
    text,
    word,
    worldinfo,
)
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import check_depth, tell_faults
from srbwriter.story.formats.document import Document, open_document
from srbwriter.story.formats.encoding import decode
from srbwriter.story.formats.errors import FormatError
from srbwriter.story.model import (
    DraftError,
    OnProgress,
    StoryDraft,
    check_draft,
    no_progress,
    without_deleted,
)

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
    html.FORMAT,
    word.FORMAT,
    fountain.FORMAT,
    markdown.FORMAT,
    text.FORMAT,
    epub.FORMAT,
)
"""Every format, the most telling keys first: a file belongs to the first that matches."""


_OF_TEXT = (markdown.FORMAT, text.FORMAT, fountain.FORMAT, html.FORMAT)
"""Formats that any text can be read in."""


def by_name(name: str) -> Format:
    """The format called ``name``.  Raises :class:`KeyError`, naming the formats there are."""
    for form in FORMATS:
        if form.name == name:
            return form
    raise KeyError(f"no format {name!r}; there are {', '.join(form.name for form in FORMATS)}")


def readable() -> tuple[Format, ...]:
    """The formats that a story can be imported from."""
    return tuple(form for form in FORMATS if form.can_import)


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


def read(
    data: bytes, name: str, progress: OnProgress = no_progress, *, encoding: str = "", format_name: str = ""
) -> StoryDraft:
    """The story in a file; ``name`` is only for messages.

    Args:
        data: the file.
        name: what it is called in messages.
        progress: told how far the work is.
        encoding: the encoding of a text that is not in UTF, by a name that Python knows.
        format_name: the format to read it as, whatever it looks like.

    Things the writer should be told are in ``draft.meta["notices"]``. Raises :class:`FormatError`, and
    :class:`KeyError` for the name of no format.
    """
    form = by_name(format_name) if format_name else None
    if form in _OF_TEXT:
        document = Document(name, data, "text", decode(data, name, encoding))
    else:
        document = _open(data, name, encoding)
    progress(0.5)
    form = form or _match(document)
    if form.read is None:
        names = ", ".join(other.name for other in readable())
        raise KeyError(f"{format_name!r} can only be exported; import from one of {names}")
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


def _open(data: bytes, name: str, encoding: str = "") -> Document:
    others.refuse_bytes(data, name)
    return open_document(data, name, encoding)


def _match(document: Document) -> Format:
    """The format of a document.  Raises :class:`FormatError` for one of none."""
    others.refuse_text(document)
    for form in FORMATS:
        if form.matches is not None and form.matches(document):
            return form
    others.refuse_json(document)


__all__ = [
    "FORMATS",
    "Format",
    "FormatError",
    "by_name",
    "detect",
    "for_file",
    "no_extension",
    "read",
    "readable",
    "writable",
    "write",
]
