"""The journal of an open story: a thread that writes behind it, and the lock that makes it the only one.

A batch of rows is written behind what the story's file holds within 0.4 s, at the cost of one sync, so the
file is always whole. What it held before stays in it until it is written anew, when typing rests. The same
batches are kept on the writer's own disk until the story is closed: from there come the words that the
story's disk did not take, and those of a program that was killed before another one replaced the file. Where
that happens while the story is open, it continues in a second file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from srbwriter import paths
from srbwriter.story.disk import changes_of, lock_of, place, saving, state_of
from srbwriter.story.library import place_of_second
from srbwriter.story.model import JsonObject, NotAStory, NotSaved, SecondFile, StoryError
from srbwriter.story.store import (
    VERSION,
    Image,
    append,
    last_batch,
    line,
    lines,
    new_token,
    write_whole,
)
from srbwriter.story.tree import Rows

log = logging.getLogger(__name__)

DELAY_SECONDS = 0.4
"""Longest time from a change to the beginning of its write."""

REST_SECONDS = 1.0
"""From the last change until the file is written anew, if it has become long."""

SPARE, SPARE_OPEN = 2**20, 4 * 2**20
"""Bytes of rows that are not valid any more, which a closed and an open file may hold in any case."""

_AGAIN_SECONDS = (0.5, 1.0, 2.0, 4.0)  # between attempts after a failure; the last one repeats


class InUse(NotSaved):
    """The story is open in ``holder``: "process 7 on attic"."""

    def __init__(self, path: Path, holder: str) -> None:
        self.holder = holder or "another process"
        cure = "close it there, and try again"
        super().__init__(path, f"the story is open in {self.holder}", full=False, cure=cure)


class FileLock:
    """The lock that gives a story one writer, until :meth:`release`. Raises InUse or OSError.

    A file beside the story is locked, since the story's own may be replaced. The system releases the lock
    when the process ends; ``killed`` says that the last holder did not.
    """

    def __init__(self, path: Path) -> None:
        self.path = lock_of(path)
        while True:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, paths.OWN_FILE)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.stat(self.path), os.fstat(self._fd)):
                    break
            except FileNotFoundError:  # its last holder removed it meanwhile
                pass
            except BlockingIOError:
                holder = os.pread(self._fd, 1000, 0).decode("utf-8", "replace")
                os.close(self._fd)
                raise InUse(path, holder) from None
            except BaseException:
                os.close(self._fd)
                raise
            os.close(self._fd)
        self.killed = os.fstat(self._fd).st_size > 0
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self._fd)


def move(path: Path, target: Path) -> Path:
    """Move a closed story, and return its new path. Raises Taken, or NotSaved if the story is open."""
    if not path.is_file():
        raise NotAStory(path, "does not exist")
    with saving(path):
        lock = FileLock(path.resolve())
        try:
            place(path, target)
        finally:
            lock.release()
    return target


@dataclass(frozen=True, slots=True)
class SaveState:
    """Whether all changes are on the disk; otherwise the age of the oldest one, and the problem."""

    saved: bool
    seconds: float = 0.0
    trouble: NotSaved | None = None

    def __str__(self) -> str:
        if self.trouble is not None:
            why = self.trouble.short
            why = why if len(why) <= 40 else f"{why[:39].rstrip()}…"
            return f"NOT SAVED: {self.seconds:.0f} s, {why}"
        if self.saved:
            return "saved"
        return "saving" if self.seconds < 2 else f"saving for {self.seconds:.0f} s"

    @property
    def why(self) -> str:
        """Why saving fails, in a few words; empty without a problem."""
        return self.trouble.short if self.trouble is not None else ""


class Journal:
    """Writes the rows of a story behind it, to the file at ``path``, which holds ``image``.

    Args:
        lock: the lock of the story, which is released with the journal.
        whole: returns all rows of the story in memory.
        summary: returns what a list of stories shows, as the story is now.
        moved: called with the second file, after another program has replaced the first.
    """

    def __init__(
        self, path: Path, image: Image, lock: FileLock, whole: Callable[[], Rows],
        summary: Callable[[], JsonObject], moved: Callable[[SecondFile], object],
    ) -> None:  # fmt: skip
        self.path = path
        self._lock, self._whole, self._summary, self._moved = lock, whole, summary, moved
        self._uuid = image.rows.get(("value", "uuid"))
        self._token, self._end, self._size_whole = image.token, image.end, image.first_end
        self._seen = state_of(path)
        self._pending, self._pending_token = b"", ""  # batches that the file has not taken
        self._changes: FileIO | None = None
        self._wake = threading.Condition()
        self._waiting: Rows = {}
        self._since: float | None = None  # the time of the oldest change that is not on the disk
        self._put = self._saved = 0  # batches
        self._urgent = self._closing = False
        self._trouble: NotSaved | None = None
        self._failed, self._not_before = 0, 0.0
        self._last = 0.0  # the time of the last change
        self._thread: threading.Thread | None = None

    # -- for the story, on any thread --------------------------------------------------------------

    def put(self, rows: Rows) -> None:
        """Write ``rows`` behind what was put before."""
        with self._wake:
            now = self._last = time.monotonic()
            self._waiting |= rows
            self._put += 1
            if self._since is None:
                self._since = now
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="srbwriter-journal", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    @property
    def state(self) -> SaveState:
        with self._wake:
            age = time.monotonic() - self._since if self._since is not None else 0.0
            return SaveState(self._put == self._saved and self._trouble is None, age, self._trouble)

    @property
    def rescue(self) -> Path | None:
        """The file with the words that the story's disk does not take; None if there is none."""
        return changes_of(self.path) if self._trouble is not None and self._changes is not None else None

    def flush(self, seconds: float = 60.0) -> None:
        """Wait until everything that was put is on the disk. Raises NotSaved if an attempt fails."""
        with self._wake:
            wanted, failed = self._put, self._failed
            if self._saved < wanted:
                self._urgent, self._not_before = True, 0.0
                self._wake.notify_all()
                self._wake.wait_for(lambda: self._saved >= wanted or self._failed > failed, seconds)
            if self._saved < wanted:
                raise self._trouble or NotSaved(self.path, "the disk does not answer", full=False)

    def close(self) -> None:
        """Write everything and release the lock. Raises NotSaved; then the words are kept elsewhere."""
        problem: NotSaved | None = None
        try:
            self.flush()
        except NotSaved as error:
            problem = error
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()
        try:
            if problem is None and self._put:
                self._check_file()
                self._write_anew(SPARE)
        except NotSaved as error:
            problem = error
        if self._changes is not None:
            self._changes.close()
            if problem is None:
                changes_of(self.path).unlink(missing_ok=True)
        self._lock.release()
        if problem is not None:
            raise problem

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                if self._closing:
                    return
                now, due = time.monotonic(), float("inf")
                if self._waiting or self._pending:
                    asked = now if self._urgent else (self._since or now) + DELAY_SECONDS
                    due = max(asked, self._not_before)
                elif self._is_long(SPARE_OPEN):
                    due = self._last + REST_SECONDS
                if due > now:
                    self._wake.wait(None if due == float("inf") else due - now)
                    continue
                rows, self._waiting = self._waiting, {}
                upto, since, self._since, self._urgent = self._put, self._since, None, False
            try:
                if rows or self._pending:
                    self._write(rows)
                else:
                    self._write_anew(SPARE_OPEN)
            except Exception as error:  # of whatever kind, the rows are kept
                trouble = (
                    error if isinstance(error, NotSaved) else NotSaved(self.path, repr(error), full=False)
                )
                log.warning("not saved: %s", trouble)
                with self._wake:
                    self._waiting = rows | self._waiting
                    self._since = since or self._since
                    again = _AGAIN_SECONDS[min(self._failed, len(_AGAIN_SECONDS) - 1)]
                    self._trouble, self._failed = trouble, self._failed + 1
                    self._not_before = time.monotonic() + again
                    self._wake.notify_all()
            else:
                with self._wake:
                    self._saved = upto
                    self._trouble, self._failed, self._not_before = None, 0, 0.0
                    self._wake.notify_all()

    def _write(self, rows: Rows) -> None:
        """Write what is pending and ``rows``, which is empty then, behind what the file holds."""
        if rows:
            token = new_token()
            batch = b"".join(lines(rows, token, self._summary()))
            self._keep(batch)
            self._pending, self._pending_token = self._pending + batch, token
            rows.clear()
        self._check_file()
        if self._pending:
            with saving(self.path):
                self._seen = append(self.path, self._pending, self._end, self._seen)
            self._end += len(self._pending)
            self._token, self._pending = self._pending_token, b""

    def _keep(self, batch: bytes) -> None:
        """Keep a batch on the writer's own disk too, behind the token that the file had before the first."""
        try:
            if self._changes is None:
                file = changes_of(self.path)
                paths.make_folder(file.parent)
                self._changes = open(file, "wb", buffering=0, opener=paths.open_own)  # noqa: SIM115
                head = lines({("value", "uuid"): self._uuid}, self._token)
                batch = b"".join([line({"srbwriter": VERSION}), *head, self._pending, batch])
            if self._changes.write(batch) < len(batch):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._trouble is not None:
                os.fsync(self._changes.fileno())
        except OSError as error:
            log.warning("changes are not kept beside the story's file: %s", error)
            self._drop_changes()

    def _drop_changes(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None
            changes_of(self.path).unlink(missing_ok=True)

    def _is_long(self, spare: int) -> bool:
        return self._end > 2 * self._size_whole + spare

    def _write_anew(self, spare: int) -> None:
        """Write the file without rows that are not valid any more, if most of it is such rows."""
        if self._is_long(spare):
            with contextlib.suppress(OSError):  # then it stays long
                self._seen = write_whole(self.path, self._whole(), self._token, instead=True)
                self._drop_changes()
            self._took_whole()

    def _took_whole(self) -> None:
        self._end = self._size_whole = self._seen[2] if self._seen is not None else 0

    def _check_file(self) -> None:
        """Continue in another file if the story's has been replaced, moved or deleted. Raises NotSaved."""
        now = state_of(self.path)
        if now == self._seen:
            return
        with saving(self.path):
            if now is not None and self._is_ours():
                self._seen = now
            else:
                self._go_on(deleted=now is None)

    def _is_ours(self) -> bool:
        try:
            return last_batch(self.path).token == self._token
        except (StoryError, OSError):
            return False

    def _go_on(self, deleted: bool) -> None:
        """Write the story as it is in memory to a second file, and continue there."""
        rows, token, first = self._whole(), new_token(), self.path
        target = first if deleted else place_of_second(first, rows)
        self._seen = write_whole(target, rows, token)
        if not deleted:
            old, self._lock = self._lock, FileLock(target)
            old.release()
        self._drop_changes()
        self.path, self._token, self._pending = target, token, b""
        self._took_whole()
        if not deleted:
            log.warning("%s was replaced by another program; the story goes on in %s", first, target)
            self._moved(SecondFile(first, target))
