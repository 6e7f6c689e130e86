"""One writer per story, whatever name they open it by; and what one who died leaves to the next.

Two files of our own are locked with ``flock``, never the story: closing any descriptor of a file drops the
locks that SQLite has on it, and on macOS and network file systems ``flock`` of the story would collide with
them. One file lies beside the story, where every user and every machine that can write the story sees it.
The other is named by the story's device and inode and lies among the program's own files: hard links and
bind mounts of one story are other paths, but the same inode. The system releases both at any death.

Knows nothing of what the story holds.
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
from srbwriter.story.connection import CLOSE_IT, has_log, inode_of, not_saved
from srbwriter.story.model import NotSaved

_LONGEST = 1 << 20  # bytes of a note that are read


class InUse(Exception):
    """The story is not free; ``problem`` goes on from its name: "is open in process 7 on attic"."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


@dataclass(slots=True)
class Note:
    """What stands in the file beside a story while it is open, and after a writer died.

    ``story`` is its uuid, ``commits`` the number of its last transaction, and ``nodes`` are those that may
    stand in the log alone. ``suspect``: damage was met.
    """

    suspect: bool = False
    story: str = ""
    commits: int = 0
    nodes: set[int] = field(default_factory=set[int])

    @classmethod
    def read(cls, path: Path) -> Note:
        """That of the story at ``path``; an empty one if there is none, or none that can be understood."""
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
    """Held from construction to :meth:`release`. Raises :class:`InUse`, or OSError if it cannot be made."""

    def __init__(self, path: Path) -> None:
        self.path = _note_file(path)
        self._story = path
        self._inode: tuple[Path, int] | None = None
        try:
            self._fd = _flock(self.path)
        except BlockingIOError:
            raise InUse(f"is open in {_holder(self.path)}") from None
        self.note = Note.of(_fields(os.pread(self._fd, _LONGEST, 0)))
        """What the last writer left, if they died; what is to be left if this one does."""
        try:
            if path.exists():
                self.lock_inode()
        except BaseException:
            self.release()
            raise
        self.sign()

    @classmethod
    def take(cls, path: Path) -> FileLock:
        """As the constructor. Raises NotSaved."""
        try:
            return cls(path)
        except InUse as error:
            raise NotSaved(path, f"the story {error.problem}", full=False, cure=CLOSE_IT) from None
        except OSError as error:
            raise not_saved(path, error) from error

    def lock_inode(self) -> None:
        """Lock the story under whatever name; to be called once it is there. Raises :class:`InUse`."""
        stat = os.stat(self._story)
        file = paths.lock_dir() / f"{socket.gethostname()} {stat.st_dev:x} {stat.st_ino:x}"
        try:
            paths.make_folder(file.parent)
            descriptor = _flock(file)
        except BlockingIOError:
            raise InUse(f"is open in {_holder(file)}, by another name") from None
        except OSError:  # no place of our own that can be written: the lock beside the story has to do
            return
        other = Path(str(_fields(os.pread(descriptor, _LONGEST, 0)).get("path", self._story)))
        if other != self._story and has_log(other) and inode_of(other) == (stat.st_dev, stat.st_ino):
            os.close(descriptor)  # SQLite looks for a log by the name of the file
            raise InUse(f"has its last words in the log of {other}, another name of it — open that one")
        self._inode = file, descriptor
        _write(descriptor, {**_self(), "path": str(self._story)})

    def sign(self) -> None:
        """Say who holds the lock, and what to leave; a full disk does not matter here."""
        note = self.note
        left = {"suspect": note.suspect, "story": note.story, "commits": note.commits}
        _write(self._fd, {**_self(), **left, "nodes": sorted(note.nodes)})

    def release(self) -> None:
        """Let the next one in. The file goes too, unless it has something to remember."""
        if self.note == Note():
            with contextlib.suppress(OSError):
                self.path.unlink()
        if self._inode is not None:
            file, descriptor = self._inode
            with contextlib.suppress(OSError):
                file.unlink()
            os.close(descriptor)
        os.close(self._fd)


def _note_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _flock(file: Path) -> int:
    """An open, locked ``file``, made if need be. Raises BlockingIOError if somebody has it, or OSError."""
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
    """Who says in ``file`` that they hold it."""
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
    """Replace what stands in a file, in one stroke: who dies on the way leaves the old or the new."""
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, json.dumps(fields).encode().ljust(os.fstat(descriptor).st_size), 0)
