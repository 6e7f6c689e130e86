"""The journal of an open story: a thread that writes behind it, and the lock that makes it the only one.

A batch of rows goes to the log beside the file within 0.4 s, at the cost of one sync, and a second after the
last change the log is folded into the file and emptied: a story at rest is one whole file. The log says on
which token it builds, so it is applied to the file that it belongs to, and to no other. Where another program
has replaced the file, the story goes on in a second one. Where the disk takes no words, the whole story is
written elsewhere, and saved later.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from srbwriter import paths
from srbwriter.story.disk import CLOSE_IT, lock_of, log_of, saving, state_of
from srbwriter.story.library import place_of_second
from srbwriter.story.model import JsonObject, NotSaved, SecondFile
from srbwriter.story.store import Replaced, append, last_batch, line, lines, new_token, write_whole
from srbwriter.story.tree import Rows

log = logging.getLogger(__name__)

DELAY_SECONDS = 0.4
"""Longest time from a change to the beginning of its write."""

REST_SECONDS = 1.0
"""From the last change until the log is folded into the file."""

LONG_LOG = 16 * 2**20
"""Bytes of a log that is folded while changes go on."""

_AGAIN_SECONDS = (0.5, 1.0, 2.0, 4.0)  # between attempts after a failure; the last one repeats
_SPARE = 2**20  # bytes of rows that are not valid any more, which a file may hold in any case


class InUse(Exception):
    """The story is locked. ``problem`` is the predicate of a message: "is open in process 7 on attic"."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class FileLock:
    """The lock that gives a story one writer, until :meth:`release`. Raises InUse or OSError.

    A file beside the story is locked, since the story's own may be replaced. The system releases the lock
    when the process ends.
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
            with saving(path):
                return cls(path)
        except InUse as error:
            raise NotSaved(path, f"the story {error.problem}", full=False, cure=CLOSE_IT) from None

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self._fd)


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
        summary: returns what a list of stories shows, as the story is now.
        rescue: the file that the story is written to while the disk takes no words.
        moved: called with the second file, after another program has replaced the first.
    """

    def __init__(
        self, path: Path, token: str, lock: FileLock, whole: Callable[[], Rows],
        summary: Callable[[], JsonObject], rescue: Path, moved: Callable[[SecondFile], object],
    ) -> None:  # fmt: skip
        self.path, self.rescue = path, rescue
        self._lock, self._whole, self._summary, self._moved = lock, whole, summary, moved
        self._token = self._folded = token  # of the last batch in the log, and of the file
        self._seen = state_of(path)
        self._bytes = self._seen[2] if self._seen is not None else 0  # of the file when it was written whole
        self._wake = threading.Condition()
        self._writing = threading.RLock()  # held while the log changes
        self._waiting: Rows = {}
        self._unfolded: Rows = {}
        self._since: float | None = None  # the time of the oldest change that is not on the disk
        self._put = self._saved = 0  # batches
        self._urgent = self._closing = False
        self._trouble: NotSaved | None = None
        self._failed, self._not_before, self._fold_not_before = 0, 0.0, 0.0
        self._last = 0.0  # the time of the last change
        self._folding: threading.Thread | None = None
        self._replaced = False  # found by a fold
        self._thread: threading.Thread | None = None
        self._log, self._size = -1, 0
        self._begin_log()

    def _begin_log(self) -> None:
        """Make an empty log, which says on which token it builds."""
        if self._log < 0:
            self._log = os.open(log_of(self.path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, paths.OWN_FILE)
        head = line({"base": self._token, "story": self.rescue.stem})
        os.ftruncate(self._log, 0)
        os.pwrite(self._log, head, 0)
        self._size = len(head)

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

    def flush(self, seconds: float = 60.0) -> None:
        """Wait until everything that was put is on the disk. Raises NotSaved if an attempt fails."""
        with self._wake:
            wanted, failed, ends = self._put, self._failed, time.monotonic() + seconds
            while self._saved < wanted:
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
        if problem is None and self._put:
            with contextlib.suppress(NotSaved):
                self._check_file()
            self._fold(dict(self._unfolded), self._token)
            with contextlib.suppress(OSError):
                self._write_anew()
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
            while not self._closing:
                now, due = time.monotonic(), float("inf")
                if self._waiting:
                    asked = now if self._urgent else (self._since or now) + DELAY_SECONDS
                    due = max(asked, self._not_before)
                    if due <= now:
                        return self._append
                if self._unfolded and not (self._folding is not None and self._folding.is_alive()):
                    rest = now if self._size > LONG_LOG else self._last + REST_SECONDS
                    fold = max(rest, self._fold_not_before)
                    if fold <= now:
                        return self._begin_fold
                    due = min(due, fold)
                self._wake.wait(None if due == float("inf") else due - now)
            return None

    def _append(self) -> None:
        """Write what waits to the log."""
        with self._wake:
            rows, self._waiting = self._waiting, {}
            upto, since, self._since, self._urgent = self._put, self._since, None, False
        token = new_token()
        try:
            self._check_file()
            with self._writing, saving(self.path):
                data = b"".join(lines(rows, token))
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
            log.warning("not saved: %s", trouble)
            self._rescue()
            with self._wake:
                self._waiting = rows | self._waiting
                self._since = since or self._since
                again = _AGAIN_SECONDS[min(self._failed, len(_AGAIN_SECONDS) - 1)]
                self._trouble, self._failed = trouble, self._failed + 1
                self._not_before = time.monotonic() + again
                self._wake.notify_all()
            return
        if self._trouble is not None:
            self.rescue.unlink(missing_ok=True)
        with self._wake:
            self._unfolded |= rows
            self._saved = upto
            self._trouble, self._failed, self._not_before = None, 0, 0.0
            self._wake.notify_all()

    def _rescue(self) -> None:
        """Write the whole story elsewhere."""
        part = self.rescue.with_suffix(".part")
        try:
            paths.make_folder(part.parent)
            part.unlink(missing_ok=True)
            write_whole(part, {**self._whole(), ("value", "builds on"): self._token}, new_token())
            paths.replace_durably(part, self.rescue)
        except OSError as error:
            log.error("what the disk refuses cannot be put elsewhere: %s", error)

    # -- into the file -----------------------------------------------------------------------------

    def _begin_fold(self) -> None:
        with self._wake:
            rows, self._unfolded = self._unfolded, {}
            token = self._token
        self._folding = threading.Thread(target=self._fold, args=(rows, token), name="srbwriter-fold")
        self._folding.start()

    def _fold(self, rows: Rows, token: str) -> None:
        """Fold ``rows`` into the file, which has ``token`` then, and empty the log if it has no others."""
        if not rows:
            return
        try:
            append(self.path, rows, token, self._folded, self._summary())
        except (Replaced, OSError) as error:
            log.warning("the log of %s is not in its file yet: %r", self.path, error)
            with self._wake:
                self._unfolded = rows | self._unfolded
                self._replaced = self._replaced or isinstance(error, Replaced)
                self._fold_not_before = time.monotonic() + _AGAIN_SECONDS[-1]
            return
        with self._writing:
            self._folded, self._seen = token, state_of(self.path)
            if self._token == token:
                with contextlib.suppress(OSError):
                    self._begin_log()
        with self._wake:
            self._wake.notify_all()

    def _write_anew(self) -> None:
        """Write the file without rows that are not valid any more, if most of it is such rows."""
        if self._seen is None or self._seen[2] < 2 * self._bytes + _SPARE or self._folded != self._token:
            return
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        write_whole(part, self._whole(), self._token)
        os.chmod(part, self.path.stat().st_mode & 0o777)
        paths.replace_durably(part, self.path)

    def _check_file(self) -> None:
        """Go on in another file if the story's has been replaced, moved or deleted. Raises NotSaved."""
        if self._folding is not None and self._folding.is_alive():
            return
        now = state_of(self.path)
        if now == self._seen and not self._replaced:
            return
        with saving(self.path):
            if now is not None and _token_of(self.path) == self._folded:
                self._seen, self._replaced = now, False
            else:
                self._go_on(deleted=now is None)

    def _go_on(self, deleted: bool) -> None:
        """Write the story as it is in memory to a second file, and go on there."""
        rows, token, first = self._whole(), new_token(), self.path
        target = first if deleted else place_of_second(first, rows)
        write_whole(target, rows, token)
        with self._writing, self._wake:
            self._unfolded.clear()
            self._token = self._folded = token
            self._replaced = False
            if not deleted:
                old, self._lock = self._lock, FileLock.take(target)
                os.close(self._log)
                log_of(first).unlink(missing_ok=True)
                old.release()
                self.path, self._log = target, -1
            self._begin_log()
            self._seen = state_of(target)
        if not deleted:
            log.warning("%s was replaced by another program; the story goes on in %s", first, target)
            self._moved(SecondFile(first, target))


def _token_of(path: Path) -> str | None:
    try:
        return last_batch(path).token
    except Exception:  # of whatever kind, it is another file
        return None
