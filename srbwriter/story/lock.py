"""One writer per story: an operating-system lock beside the file, released by the system at any death.

The lock is not on the story itself: closing any descriptor of a file drops SQLite's own locks on it.
Knows nothing of what the file holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from pathlib import Path
from typing import cast


class InUse(Exception):
    """Somebody else holds the lock; ``who`` says what is known of them."""

    def __init__(self, who: str) -> None:
        self.who = who
        super().__init__(who)


class FileLock:
    """Held from construction to :meth:`release`. Raises :class:`InUse`, or OSError if it cannot be made."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f".{path.name}.lock")
        self._fd = self._take()
        while not self._is_there():  # its last holder removed it between our opening and locking it
            os.close(self._fd)
            self._fd = self._take()
        self.suspect = self._note().get("suspect") is True
        """Whether damage was found when the file was open the last time."""
        self.sign()

    def _take(self) -> int:
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = self._holder()
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                raise InUse(who) from None
            raise
        return self._fd

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def sign(self) -> None:
        """Say who holds the lock, and what is suspected; a full disk does not matter here."""
        fields = {"pid": os.getpid(), "host": socket.gethostname(), "suspect": self.suspect}
        note = json.dumps(fields).encode()
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, note, 0)
        except OSError:
            return

    def _holder(self) -> str:
        note = self._note()
        if "pid" not in note or "host" not in note:
            return "another process"
        return f"process {note['pid']} on {note['host']}"

    def _note(self) -> dict[str, object]:
        try:
            note = json.loads(os.pread(self._fd, 4096, 0))
        except (ValueError, OSError):
            return {}
        return cast(dict[str, object], note) if isinstance(note, dict) else {}

    def release(self) -> None:
        """Let the next one in. The file goes too, unless it has something to remember."""
        if not self.suspect:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._fd)
