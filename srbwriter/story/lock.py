"""One writer per story: an operating-system lock beside the file, released by the system at any death.

The lock is not on the story itself: closing any descriptor of a file drops SQLite's own locks on it.
Knows nothing of what the file holds.
"""

from __future__ import annotations

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
        self.suspect = False
        """Whether damage was found when the file was open the last time."""
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = self._holder()
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                raise InUse(who) from None
            raise
        self.suspect = self._note().get("suspect") is True
        self.sign()

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
        return (
            f"process {note['pid']} on {note['host']}"
            if {"pid", "host"} <= note.keys()
            else "another process"
        )

    def _note(self) -> dict[str, object]:
        try:
            note = json.loads(os.pread(self._fd, 4096, 0))
        except (ValueError, OSError):
            return {}
        return cast(dict[str, object], note) if isinstance(note, dict) else {}

    def release(self) -> None:
        """Let the next one in. The file stays: removing it would let two processes lock two files."""
        os.close(self._fd)
