"""Opening a story's file, and the journal of an open story: a thread that writes behind it.

A batch of rows is written behind what the story's file holds within 0.4 s, at the cost of one sync, so the
file is always whole. What it held before stays in it until it is written anew, when typing rests. The same
batches are kept on the writer's own disk until the story is closed: from there come the words that the
story's disk did not take, and those of a program that was killed before another one replaced the file. Where
that happens while the story is open, it continues in a second file.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from secrets import token_hex

from srbwriter import paths
from srbwriter.story import disk, library
from srbwriter.story.disk import FileLock, RowFile, saving, write_story
from srbwriter.story.model import JsonObject, NotAStory, NotSaved, ReadOnly, StoryError
from srbwriter.story.tree import Rows

log = logging.getLogger(__name__)

DELAY_SECONDS = 0.4
"""Longest time from a change to the beginning of its write."""

REST_SECONDS = 1.0
"""From the last change until the file is written anew, if it has become long."""

SPARE = 2**20
"""Bytes of rows that are not valid any more, which a file may hold in any case."""

# -- open --------------------------------------------------------------------------------------------


def open_story(path: Path, *, readonly: bool = False, lock: FileLock | None = None) -> RowFile:
    """Read the story at ``path``, for writing if that is possible and ``readonly`` is false.

    ``lock`` is its lock if the caller has it. Raises NotAStory, TooNew or DamagedStory.
    """
    path = paths.expanded(path).resolve()
    torn, name = disk.lock_of(path).exists(), path.name
    why = ReadOnly("asked", f"{name} was opened for reading only") if readonly else None
    try:
        if why is None and lock is None:
            path.open("r+b").close()
            lock = FileLock(path)
    except BlockingIOError as error:
        why = ReadOnly("in use", f"{name} {error.strerror}; this view is for reading only")
    except OSError as error:
        why = ReadOnly("closed", f"{name} may not be written to ({error.strerror})")
    try:
        file = disk.read(path, torn=torn)
        if file.damage is not None:
            words = f"{name} is damaged and was opened for reading only: {file.damage}"
            why = ReadOnly("damaged", words)
        elif lock is not None:
            try:
                with saving(path):
                    file = _bring_up_to_date(file)
            except NotSaved as error:  # the disk takes nothing now
                words = f"{error.problem}; its last words are kept until there is room"
                why = ReadOnly("closed", f"{name} was opened for reading only: {words}")
        for key in [key for key, row in file.rows.items() if row is None]:
            del file.rows[key]
        file.read_only = why
        if why is None:
            file.lock, lock = lock, None
        return file
    except OSError as error:
        raise NotAStory(path, disk.in_brief(error)) from error
    finally:
        if lock is not None:
            lock.close()


def create_story(path: Path, rows: Rows) -> RowFile:
    """Create a story file with ``rows``. Raises NotAStory if it exists, or OSError."""
    path = paths.expanded(path)
    if not path.parts[0].startswith("~"):  # an unknown user's home stays unexpanded
        paths.make_folder(path.parent)
    file = write_story(path.resolve(), rows)
    file.lock = FileLock(file.path)
    disk.changes_of(file.path).unlink(missing_ok=True)  # of a file that was here before
    return file


def _bring_up_to_date(file: RowFile) -> RowFile:
    """Upgrade a file of an older version, and take up the changes that another program has left.

    That program was killed, or its disk took no words. The file holds its changes, unless their last token is
    missing in it. A file that ends with the last token that it held, or a later one, gets them; any other was
    put in its place, perhaps an older copy, and they go into a second one.
    """
    path, kept = file.path, RowFile(disk.changes_of(file.path))
    if not file.token:
        folder = library.own_folder(file.rows.get(("value", "uuid")), path, paths.backup_dir())
        library.snapshot(path, folder, "before the upgrade from version 7")
        file = write_story(path, file.rows, instead=file)
        for suffix in ("-wal", "-shm", "-journal"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    with suppress(FileNotFoundError, StoryError):
        kept = disk.read(kept.path, torn=True)
    if len(kept.tokens) > 1 and kept.token not in file.tokens:
        rows, order = file.rows | kept.rows, {token: place for place, token in enumerate(kept.tokens)}
        if order.get(file.token, -1) >= order.get(kept.summary.get("held", ""), 0):
            file.rows = rows
            file.append(b"".join(disk.lines(kept.rows, kept.token, disk.summary_of(rows))), kept.token)
        else:
            same = kept.rows["value", "uuid"] == file.rows.get(("value", "uuid"))
            kept.rows = rows if same else kept.rows
            kept.note_damage("", set())
            file.second_file = library.place_of_second(path, kept.rows)
            write_story(file.second_file, kept.rows)
    kept.path.unlink(missing_ok=True)
    return file


# -- write -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SaveState:
    """Whether all changes are on the disk; otherwise the age of the oldest one, and the problem.

    ``rescue`` is the file with the words that the story's disk does not take.
    """

    saved: bool
    seconds: float = 0.0
    trouble: NotSaved | None = None
    rescue: Path | None = None

    def __str__(self) -> str:
        if self.trouble is not None:
            return f"NOT SAVED: {self.seconds:.0f} s, {self.trouble.problem.partition(' — ')[0]}"
        if self.saved:
            return "saved"
        return "saving" if self.seconds < 2 else f"saving for {self.seconds:.0f} s"


class Journal:
    """Writes the rows of a story behind it, to ``file``, whose lock is released with the journal.

    Args:
        whole: returns all rows of the story in memory.
        summary: returns what a list of stories shows, as the story is now.
        moved: called with the second file, after another program has replaced the first.
    """

    def __init__(
        self, file: RowFile, whole: Callable[[], Rows], summary: Callable[[], JsonObject],
        moved: Callable[[Path], object],
    ) -> None:  # fmt: skip
        self.file = file
        self._whole, self._summary, self._moved = whole, summary, moved
        self._uuid, file.rows = file.rows.get(("value", "uuid")), {}
        self._pending, self._token = b"", ""  # batches that the file has not taken, and their last token
        self._changes: RowFile | None = None  # their copy on the writer's own disk
        self._wake = threading.Condition()
        self._waiting: Rows = {}
        self._since: float | None = None  # the time of the oldest change that is not on the disk
        self._last = 0.0  # the time of the last change
        self._urgent = self._closing = False
        self._trouble: NotSaved | None = None
        self._failed, self._failed_at = 0, 0.0  # attempts since the last success, and the last of them
        self._thread: threading.Thread | None = None

    # for the story, on any thread

    def put(self, rows: Rows) -> None:
        """Write ``rows`` behind what was put before."""
        with self._wake:
            self._last = time.monotonic()
            self._since = self._since or self._last
            self._waiting |= rows
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="srbwriter-journal", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    @property
    def state(self) -> SaveState:
        with self._wake:
            age = time.monotonic() - self._since if self._since is not None else 0.0
            rescue = changes.path if (changes := self._changes) and self._trouble else None
            return SaveState(self._since is None, age, self._trouble, rescue)

    def flush(self) -> None:
        """Wait until everything that was put is on the disk. Raises NotSaved if an attempt fails."""
        with self._wake:
            asked, failed = time.monotonic(), self._failed
            if self._since is None:
                return
            self._urgent, self._failed_at = True, 0.0
            self._wake.notify_all()
            self._wake.wait_for(lambda: (self._since or inf) > asked or self._failed > failed, timeout=60)
            if (self._since or inf) <= asked:
                raise self._trouble or NotSaved(self.file.path, "the disk does not answer")

    def close(self) -> None:
        """Write everything and release the lock. Raises NotSaved; then the words are kept elsewhere."""
        try:
            if self._thread is not None and not self._closing:
                self.put({})  # the file is looked at once more
                self.flush()
        finally:
            with self._wake:
                self._closing = True
                self._wake.notify_all()
            if self._thread is not None:
                self._thread.join()
            if not self._pending:
                self._drop_changes()
            if self.file.lock is not None:
                self.file.lock.close()
                self.file.lock = None

    # the thread

    def _due(self) -> float:
        """Return when the next write begins."""
        if self._since is not None:
            # New words are kept elsewhere without delay, also where attempts are far apart.
            pause = DELAY_SECONDS if self._waiting else min(2.0 ** (self._failed - 2), 4.0)
            return max(self._since if self._urgent else self._since + DELAY_SECONDS, self._failed_at + pause)
        is_long = self.file.end > 2 * self.file.whole + SPARE
        return self._last + REST_SECONDS if is_long else inf

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._closing and (seconds := self._due() - time.monotonic()) > 0:
                    self._wake.wait(min(seconds, threading.TIMEOUT_MAX))
                if self._closing:
                    return
                rows, self._waiting, self._urgent = self._waiting, {}, False
                resting, began = self._since is None, time.monotonic()
            try:
                if resting:
                    self._write_anew()
                else:
                    self._write(rows)
            except Exception as error:  # of whatever kind, the rows are kept
                known = isinstance(error, NotSaved)
                trouble = error if known else NotSaved(self.file.path, repr(error))
                log.warning("not saved: %s", trouble)
                with self._wake:
                    self._waiting = rows | self._waiting
                    self._trouble, self._failed = trouble, self._failed + 1
                    self._failed_at = time.monotonic()
                    self._wake.notify_all()
            else:
                with self._wake:
                    self._since = began if self._waiting else None
                    self._trouble, self._failed, self._failed_at = None, 0, 0.0
                    self._wake.notify_all()

    def _write(self, rows: Rows) -> None:
        """Write what is pending and ``rows``, which is empty then, behind what the file holds."""
        if rows:
            self._token = token_hex(8)
            batch = b"".join(disk.lines(rows, self._token, self._summary() | {"held": self.file.token}))
            self._keep(batch)
            self._pending += batch
            rows.clear()
        with saving(self.file.path):
            if not self.file.is_ours():
                self._go_on()
            elif self._pending:
                self.file.append(self._pending, self._token)
                self._keep(b"".join(disk.lines({}, self._token, {"held": self._token})))
        self._pending = b""

    def _keep(self, batch: bytes) -> None:
        """Keep a batch on the writer's own disk too, behind the token that the file had before the first."""
        try:
            if self._changes is None:
                path, head = disk.changes_of(self.file.path), {("value", "uuid"): self._uuid}
                paths.make_folder(path.parent)
                self._changes = write_story(path, head, self.file.token, sync=False)
                batch = self._pending + batch
            self._changes.append(batch, self._token, sync=self._trouble is not None)
        except (OSError, StoryError) as error:
            log.warning("changes are not kept beside the story's file: %s", error)
            self._drop_changes()

    def _drop_changes(self) -> None:
        if self._changes is not None:
            self._changes.path.unlink(missing_ok=True)
            self._changes = None

    def _write_anew(self) -> None:
        """Write the file without rows that are not valid any more."""
        try:
            self._use(write_story(self.file.path, self._whole(), self.file.token, instead=self.file))
        except OSError:  # then it stays long
            self.file.whole = self.file.end

    def _use(self, file: RowFile) -> None:
        """Continue in ``file``, which holds everything."""
        self._drop_changes()
        file.rows, file.lock, self.file = {}, file.lock or self.file.lock, file

    def _go_on(self) -> None:
        """Write the story as it is in memory to a second file, or in the place of a deleted one."""
        first, lock, rows = self.file.path, self.file.lock, self._whole()
        if not first.exists():
            self._use(write_story(first, rows))
            return
        file = write_story(library.place_of_second(first, rows), rows)
        file.lock = FileLock(file.path)
        self._use(file)
        if lock is not None:
            lock.close()
        self._moved(file.path)
