"""A folder of files, or several files named one by one, as one story: each file is a chapter."""

from __future__ import annotations

from pathlib import PurePosixPath

from srbwriter.story.formats.base import Folder, FolderFormat, FormatError, NotForUs, ReadFile
from srbwriter.story.formats.binding import Binder, title_of
from srbwriter.story.model import StoryDraft

NAME = "folder"

_TEXTS = frozenset(
    ".md .markdown .txt .text .fountain .docx .odt .rtf .html .htm .xhtml .epub .story .jsonl".split()
)
"""Endings of files that are meant to be read: one that cannot be read is an error."""


def matches(folder: Folder) -> bool:
    return bool(folder.files)


def read(folder: Folder, read_file: ReadFile) -> StoryDraft:
    """The story in the files of a folder, in their order.

    Files that are no stories, such as pictures, are left out with a notice. Raises :class:`FormatError` for
    an unreadable file that was named, or has the name of a text: no chapter goes missing silently.
    """
    binder = Binder()
    for path in folder.files:
        meant = path in folder.named or PurePosixPath(path).suffix.lower() in _TEXTS
        if not folder.read_bytes(path).strip():
            binder.add_notice(f"{path} is empty, and was left out")
            continue
        try:
            part = read_file(path)
        except FormatError as error:
            if meant:
                raise
            binder.add_notice(f"left out: {error}")
        else:
            binder.add(part, path, title_of(path))
    if binder.empty:
        cure = "name a folder with .md, .txt, .docx, .odt, .rtf or .html files"
        raise NotForUs(folder.name or "these files", "hold nothing that can be read", cure)
    return binder.draft(folder.title)


FORMAT = FolderFormat(NAME, "Folder of files, each a chapter", "(folder)", matches, read, takes_the_rest=True)
