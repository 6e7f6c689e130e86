"""File formats: bytes to :class:`~srbwriter.story.model.StoryDraft` and back.

Each format is one module and one line in a table, in the order in which files are tried. Such a module is a
leaf: it imports the base of this package (``base``, ``document``, ``build`` and so on) and its own parts, but
no other leaf, and everything else works without it. A format is recognised by the content of a file, never by
its name. Nothing here opens or writes a file, and nothing imports the store or a screen.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from srbwriter.story.formats import others
from srbwriter.story.formats.base import Document, Folder, FolderFormat, Format, FormatError, NotForUs
from srbwriter.story.formats.build import notice_faults
from srbwriter.story.formats.document import open_document
from srbwriter.story.formats.encoding import decode
from srbwriter.story.model import (
    DraftError,
    OnProgress,
    StoryDraft,
    check_draft,
    no_progress,
    without_deleted,
)

_LEAVES = (
    "own",
    "tapestry",
    "novelai",
    "kobold",
    "aidungeon",
    "card",
    "sillytavern",
    "lore",
    "mikupad",
    "loomsidian",
    "loom",
    "webpage",
    "word",
    "odt",
    "rtf",
    "epub",
    "scrivener",
    "obsidian",
    "folder",
    "text",
    "markdown",
)
"""The modules that know a format, those with the most telling keys first.

A module's line is all that the rest of the program knows of it.
"""


def _in_leaves(kind: type[Any]) -> list[Any]:
    """The formats of one kind that the leaves define, in their order."""
    values = (value for leaf in _LEAVES for value in vars(import_module(f"{__name__}.{leaf}")).values())
    found = [value for value in values if isinstance(value, kind)]
    return sorted(found, key=lambda form: form.takes_the_rest)


FORMATS: tuple[Format, ...] = tuple(_in_leaves(Format))
"""Every format of a file. A file belongs to the first that matches."""

FOLDERS: tuple[FolderFormat, ...] = tuple(_in_leaves(FolderFormat))
"""Every format of a folder. A folder belongs to the first that matches."""


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
    """Return the export format for a file name; case does not matter.

    It is the first format of the extension, unless the name has another format's before it:
    ``tree.loom.json``.
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
        name: its name in messages.
        progress: called with the progress.
        encoding: the encoding of a text that is not in UTF, by a name that Python knows.
        format_name: the format to read it as, instead of the detected one.

    Notices for the writer are in ``draft.meta["notices"]``. Raises :class:`FormatError`, and
    :class:`KeyError` for the name of no format.
    """
    form = by_name(format_name) if format_name else None
    if form is not None and form.of_text:
        document = Document(name, data, "text", decode(data, name, encoding))
    else:
        document = _open(data, name, encoding)
    progress(0.5)
    form = form or _match(document)
    if form.read is None:
        names = ", ".join(other.name for other in readable())
        raise KeyError(f"{format_name!r} can only be exported; import from one of {names}")
    draft = form.read(document)
    notice_faults(draft, document.faults)
    return _checked(draft, name)


def _checked(draft: StoryDraft, name: str) -> StoryDraft:
    """The draft, if it can be stored. Raises :class:`FormatError`."""
    try:
        check_draft(draft)
    except DraftError as error:
        raise FormatError(name, "the nodes", f"a tree ({error})") from error
    return draft


def read_folder(
    folder: Folder,
    progress: OnProgress = no_progress,
    *,
    as_one: bool = False,
    encoding: str = "",
    format_name: str = "",
) -> StoryDraft:
    """The story in a folder.

    Args:
        folder: the folder.
        progress: called with the progress.
        as_one: whether any folder may become a story, each file a chapter.
        encoding: the encoding of texts that are not in UTF.
        format_name: the format of the folder, or that of each file in it.

    Raises :class:`FormatError` for a folder that is no story, unless ``as_one`` is set.
    """
    done = 0

    def read_file(path: str) -> StoryDraft:
        nonlocal done
        done += 1
        progress(min(1, done / len(folder.files)))
        of_file = "" if any(each.name == format_name for each in FOLDERS) else format_name
        name = f"{folder.name}/{path}" if folder.name else path
        return read(folder.read_bytes(path), name, encoding=encoding, format_name=of_file)

    fits = (each for each in FOLDERS if each.name == format_name)
    form = next(fits, None) or next(
        (each for each in FOLDERS if (not each.takes_the_rest or as_one) and each.matches(folder)), None
    )
    if form is None:
        cure = "name a file in it; `srbwriter import --as-one` makes one story of all of them"
        raise NotForUs(folder.name, "is a folder", cure)
    return _checked(form.read(folder, read_file), folder.name)


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
    others.refuse_unknown(document)


__all__ = [
    "FOLDERS",
    "FORMATS",
    "Folder",
    "FolderFormat",
    "Format",
    "FormatError",
    "by_name",
    "detect",
    "for_file",
    "no_extension",
    "read",
    "read_folder",
    "readable",
    "writable",
    "write",
]
