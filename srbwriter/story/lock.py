"""The lock that gives a story one writer, and the note that a crashed writer leaves for the next one.

A file of our own beside the story is locked with ``flock``, never the story itself: closing any descriptor of
a file drops the locks that SQLite has on it, and on macOS and network file systems ``flock`` of the story
would collide with them. The system releases the lock when the process ends.

This module does not read the story's contents.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srbwriter import paths
from srbwriter.story.connection import CLOSE_IT, not_saved
from srbwriter.story.model import NotSaved
from srbwriter.story.shadow import was_replaced

_LONGEST = 1 << 20  # bytes of a note that are read


class InUse(Exception):
    """The story is locked. ``problem`` is the predicate of a message: "is open in process 7 on attic"."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


@dataclass(slots=True)
class Note:
    """The contents of the lock file beside a story while it is open, and after a crash.

    ``story`` is its uuid, ``commits`` the number of its last transaction, and ``nodes`` those that may be
    only in the write-ahead log. ``suspect`` is set if damage was found.
    """

    suspect: bool = False
    story: str = ""
    commits: int = 0
    nodes: set[int] = field(default_factory=set[int])

    @classmethod
    def read(cls, path: Path) -> Note:
        """Return the note of the story at ``path``; an empty one if it is missing or of another story."""
        if was_replaced(path):
            return cls()
        try:
            with _note_file(path).open("rb") as file:
                return cls.of(_fields(file.read(_LONGEST)))
        except OSError:
            return cls()

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Note:
        try:
            return cls(
                fields.get("suspect") is True,
                str(fields.get("story", "")),
                int(fields.get("commits", 0)),
                {int(node) for node in fields.get("nodes", ())},
            )
        except (TypeError, ValueError):
            return cls()


class FileLock:
    """The lock of a story, held until :meth:`release`. The constructor raises :class:`InUse` or OSError."""

    def __init__(self, path: Path) -> None:
        self.path = _note_file(path)
        try:
            self._fd = _flock(self.path)
        except BlockingIOError:
            raise InUse(f"is open in {_holder(self.path)}") from None
        self.note = Note.of(_fields(os.pread(self._fd, _LONGEST, 0)))
        """The note of a writer that crashed; from :meth:`sign` on, the note that this writer would leave."""
        self.sign()

    @classmethod
    def take(cls, path: Path) -> FileLock:
        """Lock the story at ``path``, but raise NotSaved instead of InUse or OSError.

        Also raises it for a story that was replaced after a kill.
        """
        if was_replaced(path):
            problem = "another program replaced it while it was open"
            raise NotSaved(path, problem, full=False, cure="open it once, which keeps both versions")
        try:
            return cls(path)
        except InUse as error:
            raise NotSaved(path, f"the story {error.problem}", full=False, cure=CLOSE_IT) from None
        except OSError as error:
            raise not_saved(path, error) from error

    def sign(self) -> None:
        """Write this process and the note into the lock file. Errors, such as a full disk, are ignored."""
        note = self.note
        left = {"suspect": note.suspect, "story": note.story, "commits": note.commits}
        _write(self._fd, {**_self(), **left, "nodes": sorted(note.nodes)})

    def release(self) -> None:
        """Release the lock, and remove its file unless the note has something to keep."""
        if self.note == Note():
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._fd)


def _note_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _flock(file: Path) -> int:
    """Open ``file``, created if missing, and lock it. Raises BlockingIOError if it is locked, or OSError."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, paths.OWN_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.stat(file), os.fstat(descriptor)):
                return descriptor
        except FileNotFoundError:  # its last holder removed it between our opening and locking it
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _self() -> dict[str, object]:
    return {"pid": os.getpid(), "host": socket.gethostname()}


def _holder(file: Path) -> str:
    """Return the process that holds the lock ``file``, in words."""
    try:
        fields = _fields(file.read_bytes())
    except OSError:
        fields = {}
    known = {"pid", "host"} <= fields.keys()
    return f"process {fields['pid']} on {fields['host']}" if known else "another process"


def _fields(data: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        fields = json.loads(data)
        if isinstance(fields, dict):
            return fields  # pyright: ignore[reportUnknownVariableType]
    return {}


def _write(descriptor: int, fields: dict[str, Any]) -> None:
    """Replace the contents of a file in one write, so that a crash leaves the old or the new contents."""
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, json.dumps(fields).encode().ljust(os.fstat(descriptor).st_size), 0)
