"""The files of a story, and errors of the disk as the story's own."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from srbwriter import paths
from srbwriter.story.model import NotAStory, NotMade, NotSaved

_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = "access is not permitted — change the permissions, or choose another place"
_IN_THE_WAY = "a file is where a folder should be — check the name, or choose another place"
_CURES = {
    errno.ENOENT: "there is no such file — check the name",
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.EISDIR: "is a folder — name a file in it",
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EROFS: "nothing can be written there — choose another place",
    errno.ENOSPC: "the disk is full — free some space, and try again",
    errno.EDQUOT: "the disk is full for you — free some space, and try again",
    errno.ENAMETOOLONG: "the name is too long — choose a shorter one",
}

LONGEST_NAME = 150
"""Bytes of a file name. File systems allow 255; a number, a suffix and names beside it need room."""

FileState: TypeAlias = "tuple[int, int, int, int] | None"
"""Device, inode, size and time of change of a file; None if it does not exist."""


def check_file(path: Path) -> None:
    """Raise NotAStory unless ``path`` is a file that could be a story."""
    if not path.exists():
        raise NotAStory(path, "does not exist — check the name")
    if path.is_dir():
        raise NotAStory(path, "is a folder — name a story in it")
    if not path.is_file():
        raise NotAStory(path, "is not a file")
    if path.stat().st_size == 0:
        raise NotAStory(path, "is empty — delete it to begin a story there, or restore a copy")


def state_of(file: Path | int) -> FileState:
    try:
        stat = os.stat(file)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def lock_of(path: Path) -> Path:
    """Return the path of the lock file beside a story."""
    return path.with_name(f".{path.name}.lock")


def changes_of(path: Path) -> Path:
    """Return where a program that has the story at ``path`` open keeps what it has changed since."""
    name = sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return paths.state_dir() / "changes" / f"{name}.srbw"


def remove(path: Path) -> None:
    """Remove a story file and what belongs to it."""
    for file in (path, changes_of(path), *(Path(f"{path}{suffix}") for suffix in ("-journal", "-wal"))):
        file.unlink(missing_ok=True)


class Taken(NotAStory):
    """A file of that name exists already."""


def place(path: Path, target: Path) -> None:
    """Rename a file without overwriting another. Raises Taken or OSError."""
    try:
        os.link(path, target)  # unlike a rename, a link never overwrites
    except OSError:  # there is one, or the file system has no links
        if target.exists():
            raise Taken(target, "is already there — choose another name, or open it") from None
        path.rename(target)
    else:
        path.unlink()


def in_brief(error: OSError) -> str:
    """Return the message for a system error, with a cure if there is one."""
    return _CURES.get(error.errno or 0) or error.strerror or str(error)


@contextmanager
def making(path: Path) -> Generator[None]:
    """Turn errors while a new story is created into NotMade, with a message about ``path``."""
    try:
        yield
    except OSError as error:
        raise NotMade(path, in_brief(error), full=error.errno in _FULL) from error
    except NotSaved as error:
        cause = error.__cause__
        words = in_brief(cause) if isinstance(cause, OSError) else f"{error.short} — choose another place"
        raise NotMade(path, error.short if isinstance(error, NotMade) else words, error.full) from cause


@contextmanager
def saving(path: Path) -> Generator[None]:
    """Turn the system's errors about ``path`` into NotSaved."""
    try:
        yield
    except OSError as error:
        raise NotSaved(path, error.strerror or str(error), full=error.errno in _FULL) from error
