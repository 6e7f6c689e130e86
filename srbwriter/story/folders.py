"""The files of a folder, or single files, in the order of their chapters.

Hidden files and folders are ignored. Files are read when a format needs them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from srbwriter.story.formats.base import Folder
from srbwriter.story.model import StoryError

MOST_FILES = 20_000
"""Most files of one story; a folder with more is refused as a mistake."""

_SYSTEM = frozenset(("__macosx", "thumbs.db", "desktop.ini"))
_DIGITS = re.compile(r"(\d+)")
_PROJECT = ".scriv"

NaturalKey = tuple[tuple[bool, int, str], ...]


def natural_key(name: str) -> NaturalKey:
    """Return a sort key for names as people number them: ``2`` before ``10``, without regard to case."""
    parts = (part for part in _DIGITS.split(name.casefold()) if part)
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts)


def open_folder(folder: Path) -> Folder:
    """The files in ``folder`` and in the folders below it. Raises StoryError for too many, and OSError."""
    files = tuple(_files_in(folder))
    hidden = frozenset(path.name for path in folder.iterdir() if _is_hidden(path.name) and path.is_dir())
    absolute = folder.absolute()
    title = absolute.stem if absolute.suffix.lower() == _PROJECT else absolute.name
    return Folder(str(folder), title, files, lambda path: (folder / path).read_bytes(), hidden)


def open_files(paths: Sequence[Path]) -> Folder:
    """Files in the order given, and those in folders among them. Raises StoryError for too many."""
    files = [file for path in paths for file in _files_of(path)]
    named = frozenset(str(path) for path in paths)
    return Folder("", "", tuple(files), lambda path: Path(path).read_bytes(), named=named)


def _files_of(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from (str(path / file) for file in _files_in(path))
    else:
        yield str(path)


def _files_in(top: Path) -> list[str]:
    """The paths below ``top``, with ``/`` between their parts, in natural order."""
    found: list[str] = []
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        at = Path(folder).relative_to(top)
        found += [(at / name).as_posix() for name in names if not _is_hidden(name)]
        if len(found) > MOST_FILES:
            raise StoryError(f"{top}: has more than {MOST_FILES} files — name a folder with one story in it")
    return sorted(found, key=lambda path: [natural_key(part) for part in path.split("/")])


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "~$")) or name.casefold() in _SYSTEM
