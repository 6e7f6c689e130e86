"""The journal of an open story: one thread that writes behind it, and the log beside the file.

A batch of rows goes to the log within 0.4 s, at the cost of one sync, and a second after the last change the
log is folded into the file and emptied: a story at rest is one whole file. Each batch has a random token; the
log says on which token it builds, and the file has the token of what was folded last. So a log is applied to
the file that it belongs to, and to no other. Where another program has replaced the file, the story goes on
in a second one. Where the disk takes no words, the whole story is written elsewhere, and saved later.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import sqlite3
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any
from zlib import crc32

import msgpack

from srbwriter import paths
from srbwriter.story import store
from srbwriter.story.connection import CLOSE_IT, lock_of, log_of, not_saved, state_of
from srbwriter.story.model import NotSaved, SecondFile
from srbwriter.story.tree import Rows

log = logging.getLogger(__name__)

DELAY_SECONDS = 0.4
"""Longest time from a change to the beginning of its write."""

REST_SECONDS = 1.0
"""From the last change until the log is folded into the file."""

LONG_LOG = 16 * 2**20
"""Bytes of a log that is folded while changes go on."""

_AGAIN_SECONDS = (0.5, 1.0, 2.0, 4.0)  # between attempts after a failure; the last one repeats
_HEAD = struct.Struct(">II")  # length and checksum of a record


# -- the lock ----------------------------------------------------------------------------------------


class InUse(Exception):
    """The story is locked. ``problem`` is the predicate of a message: "is open in process 7 on attic"."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class FileLock:
    """The lock that gives a story one writer, until :meth:`release`. Raises InUse or OSError.

    A file beside the story is locked, never the story itself: closing any descriptor of a file drops the
    locks that SQLite has on it. The system releases the lock when the process ends.
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
                raise InUse(f"is open in {holder or 'another process'}") from None
            except BaseException:
                os.close(self._fd)
                raise
            os.close(self._fd)
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)

    @classmethod
    def take(cls, path: Path) -> FileLock:
        """Lock the story at ``path``, but raise NotSaved instead of InUse or OSError."""
        try:
            return cls(path)
        except InUse as error:
            raise NotSaved(path, f"the story {error.problem}", full=False, cure=CLOSE_IT) from None
        except OSError as error:
            raise not_saved(path, error) from error

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self._fd)


# -- the log -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Log:
    """What a log holds: the token that it builds on, and (token, rows) of each batch."""

    base: str = ""
    story: str = ""
    batches: list[tuple[str, Rows]] = field(default_factory=list[tuple[str, Rows]])

    def after(self, token: str | None) -> Rows | None:
        """Return the rows that a file with ``token`` lacks; None if the log is of another file."""
        known = [self.base, *(name for name, _ in self.batches)]
        if token not in known:
            return None
        rows: Rows = {}
        for _, more in self.batches[known.index(token) :]:
            rows |= more
        return rows

    @property
    def all(self) -> Rows:
        rows: Rows = {}
        for _, more in self.batches:
            rows |= more
        return rows


def read_log(path: Path) -> Log | None:
    """Return the log beside the story at ``path``, as far as it was written whole; None if there is none."""
    try:
        data = log_of(path).read_bytes()
    except OSError:
        return None
    found, at = Log(), 0
    while at + _HEAD.size <= len(data):
        length, total = _HEAD.unpack_from(data, at)
        record = data[at + _HEAD.size : at + _HEAD.size + length]
        if len(record) < length or crc32(record) != total:
            break
        at += _HEAD.size + length
        try:
            what = msgpack.unpackb(record, use_list=False, strict_map_key=False)  # pyright: ignore
            if isinstance(what, dict):
                found.base, found.story = str(what["base"]), str(what["story"])  # pyright: ignore
            else:
                token, rows = what  # pyright: ignore
                found.batches.append((token, {(table, key): row for table, key, row in rows}))  # pyright: ignore
        except (ValueError, TypeError, KeyError):
            break
    return found


def _record(what: Any) -> bytes:
    data: bytes = msgpack.packb(what)  # pyright: ignore
    return _HEAD.pack(len(data), crc32(data)) + data


# -- the journal -------------------------------------------------------------------------------------


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
    """Writes the rows of a story at ``path``, whose file has ``token``, behind it.

    Args:
        lock: the lock of the story, which is released with the journal.
        whole: returns all rows of the story in memory.
        summary: returns values that a list of stories shows, as the story is now.
        rescue: the file that the story is written to while the disk takes no words.
        moved: called with the second file, after another program has replaced the first.
    """

    def __init__(
        self, path: Path, token: str, lock: FileLock, whole: Callable[[], Rows],
        summary: Callable[[], Rows], rescue: Path, moved: Callable[[SecondFile], object],
    ) -> None:  # fmt: skip
        self.path, self.rescue = path, rescue
        self._lock, self._whole, self._summary, self._moved = lock, whole, summary, moved
        self._story = rescue.stem
        self._token = self._folded = token  # of the last batch in the log, and of the file
        self._seen: object = state_of(path)
        self._wake = threading.Condition()
        self._writing = threading.RLock()  # held while the log changes
        self._waiting: Rows = {}
        self._unfolded: Rows = {}
        self._since: float | None = None  # the time of the oldest change that is not on the disk
        self._put = self._saved = 0  # batches
        self._urgent = self._closing = False
        self._trouble: NotSaved | None = None
        self._proved = False  # the disk has taken something
        self._failed, self._not_before, self._fold_not_before = 0, 0.0, 0.0
        self._last = 0.0  # the time of the last change
        self._folding: threading.Thread | None = None
        self._replaced = False  # found by a fold
        self._thread: threading.Thread | None = None
        self._log = -1
        self._size = 0
        self._begin_log()

    def _begin_log(self) -> None:
        """Make an empty log, which says on which token it builds."""
        if self._log < 0:
            self._log = os.open(log_of(self.path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, paths.OWN_FILE)
        head = _record({"base": self._token, "story": self._story})
        os.ftruncate(self._log, 0)
        os.pwrite(self._log, head, 0)
        self._size = len(head)

    # -- for the story, on any thread --------------------------------------------------------------

    def put(self, rows: Rows) -> None:
        """Write ``rows`` behind what was put before."""
        if not rows:
            return
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
    def pending(self) -> int:
        """The number of batches that are not on the disk; 0 means saved."""
        return self._put - self._saved

    @property
    def state(self) -> SaveState:
        with self._wake:
            age = time.monotonic() - self._since if self._since is not None else 0.0
            return SaveState(not self.pending and self._trouble is None, age, self._trouble)

    def flush(self, seconds: float = 60.0) -> None:
        """Wait until everything that was put is on the disk. Raises NotSaved if an attempt fails."""
        with self._wake:
            wanted, failed, ends = self._put, self._failed, time.monotonic() + seconds
            while self._saved < wanted and self._thread is not None:
                self._urgent = True
                if self._trouble is not None:
                    self._not_before = 0.0
                self._wake.notify_all()
                self._wake.wait(0.05)
                if self._trouble is not None and self._failed > failed:
                    raise self._trouble
                if time.monotonic() > ends:
                    raise NotSaved(self.path, "the disk does not answer", full=False)

    def close(self) -> None:
        """Write everything, fold the log, and release the lock. Raises NotSaved; then the rescue has it."""
        problem: NotSaved | None = None
        try:
            self.flush()
        except NotSaved as error:
            problem = error
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        for thread in (self._thread, self._folding):
            if thread is not None and thread is not threading.current_thread():
                thread.join()
        if problem is None:
            with contextlib.suppress(NotSaved):
                if self._put:
                    self._check_file()
            self._fold(dict(self._unfolded), self._token)
        os.close(self._log)
        if problem is None and self._folded == self._token:
            with contextlib.suppress(OSError):
                log_of(self.path).unlink()
        self._lock.release()
        if problem is not None:
            raise problem

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        while (act := self._next()) is not None:
            try:
                act()
            except Exception:  # this thread must outlive any error
                log.exception("the journal failed")
                time.sleep(0.5)

    def _next(self) -> Callable[[], None] | None:
        """Wait until something is to be done; None when the journal is closed."""
        with self._wake:
            while True:
                now, folding = time.monotonic(), self._folding is not None and self._folding.is_alive()
                if self._closing:
                    return None
                due = float("inf")
                if self._waiting:
                    asked = now if self._urgent else (self._since or now) + DELAY_SECONDS
                    due = max(asked, self._not_before)
                    if due <= now:
                        return self._append
                if self._unfolded and not folding:
                    rest = now if self._size > LONG_LOG else self._last + REST_SECONDS
                    fold = max(rest, self._fold_not_before)
                    if fold <= now:
                        return self._begin_fold
                    due = min(due, fold)
                self._wake.wait(None if due == float("inf") else max(due - now, 0.0))

    def _append(self) -> None:
        """Write what waits to the log."""
        with self._wake:
            rows, self._waiting = self._waiting, {}
            upto, since, self._since, self._urgent = self._put, self._since, None, False
        try:
            self._check_file()
            token = token_hex(8)
            with self._writing:
                data = _record([token, [[*key, row] for key, row in rows.items()]])
                try:
                    if os.pwrite(self._log, data, self._size) < len(data):
                        raise OSError(28, os.strerror(28))
                    os.fsync(self._log)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.ftruncate(self._log, self._size)
                    raise
                self._size += len(data)
                self._token = token
        except Exception as error:  # of whatever kind, the rows are kept
            trouble = error if isinstance(error, NotSaved) else NotSaved(self.path, repr(error), full=False)
            trouble = not_saved(self.path, error) if isinstance(error, OSError) else trouble
            log.warning("not saved: %s", trouble)
            with self._wake:
                self._waiting = rows | self._waiting
                self._since = since or self._since
            self._rescue()
            with self._wake:
                again = _AGAIN_SECONDS[min(self._failed, len(_AGAIN_SECONDS) - 1)]
                self._trouble, self._failed, self._not_before = (
                    trouble,
                    self._failed + 1,
                    time.monotonic() + again,
                )
                self._wake.notify_all()
            return
        with self._wake:
            self._unfolded |= rows
            self._saved = upto
            if self._trouble is not None or not self._proved:
                self._trouble, self._failed, self._not_before, self._proved = None, 0, 0.0, True
                self.rescue.unlink(missing_ok=True)  # also of an earlier run, which was read at the opening
            self._wake.notify_all()

    def _rescue(self) -> None:
        """Write the whole story elsewhere."""
        part = self.rescue.with_suffix(".part")
        try:
            paths.make_folder(part.parent)
            part.unlink(missing_ok=True)
            rows = self._whole()
            rows["value", "builds on"] = "builds on", json.dumps(self._token)
            store.write_whole(part, rows, token_hex(8))
            paths.replace_durably(part, self.rescue)
        except (OSError, sqlite3.Error) as error:
            log.error("what the disk refuses cannot be put elsewhere: %s", error)

    # -- into the file -----------------------------------------------------------------------------

    def _begin_fold(self) -> None:
        with self._wake:
            rows, self._unfolded = self._unfolded, {}
            token = self._token
        self._folding = threading.Thread(
            target=self._fold, args=(rows, token), name="srbwriter-fold", daemon=False
        )
        self._folding.start()

    def _fold(self, rows: Rows, token: str) -> None:
        """Fold ``rows`` into the file, which has ``token`` then, and empty the log if it has no others."""
        if not rows:
            return
        try:
            store.fold(self.path, rows | self._summary(), token, self._folded)
        except (store.Replaced, OSError, sqlite3.Error) as error:
            log.warning("the log of %s is not in its file yet: %r", self.path, error)
            with self._wake:
                self._unfolded = rows | self._unfolded
                self._replaced = self._replaced or isinstance(error, store.Replaced)
                self._fold_not_before = time.monotonic() + _AGAIN_SECONDS[-1]
            return
        with self._writing:
            self._folded, self._seen = token, state_of(self.path)
            if self._token == token:
                with contextlib.suppress(OSError):
                    self._begin_log()
        with self._wake:
            self._wake.notify_all()

    def _check_file(self) -> None:
        """Go on in another file if the story's has been replaced, moved or deleted. Raises NotSaved."""
        if self._folding is not None and self._folding.is_alive():
            return
        now = state_of(self.path)
        if now == self._seen and not self._replaced:
            return
        if now is not None and store.token_of(self.path) == self._folded:
            self._seen, self._replaced = now, False
            return
        try:
            self._go_on(deleted=now is None)
        except (OSError, sqlite3.Error) as error:
            raise not_saved(self.path, error) from error

    def _go_on(self, deleted: bool) -> None:
        """Write the story as it is in memory to a second file, and go on there."""
        from srbwriter.story.library import place_of_second

        rows, token = self._whole(), token_hex(8)
        target = self.path if deleted else place_of_second(self.path, rows)
        store.write_whole(target, rows | self._summary(), token)
        with self._writing, self._wake:
            self._unfolded.clear()
            self._token = self._folded = token
            self._replaced = False
            if not deleted:
                old, self._lock = self._lock, FileLock.take(target)
                os.close(self._log)
                log_of(self.path).unlink(missing_ok=True)
                old.release()
                second = SecondFile(self.path, target)
                self.path, self._log = target, -1
            self._begin_log()
            self._seen = state_of(target)
        if not deleted:
            log.warning("%s", second)  # pyright: ignore[reportPossiblyUnboundVariable]
            self._moved(second)  # pyright: ignore[reportPossiblyUnboundVariable]
