"""The file of a story, and the journal that writes behind it.

The file holds rows as lines of JSON, in batches. A line is a checksum and JSON: a row is [table, key, value],
where null is a row that is gone, and ["end", token, summary] ends a batch. A later row takes the place of an
earlier one, and what is behind the last end was never written whole. The random tokens of its batches tell
whose file it is: another program may have put one in its place. Of a damaged file every readable row is kept.

A batch is written behind what the file holds within 0.4 s, at the cost of one sync, so the file is always
whole. What it held before stays in it until it is written anew, when typing rests. The same batches are kept
on the writer's own disk until the story is closed: from there come the words that the story's disk did not
take, and those of a program that was killed before another one replaced the file. Where that happens while
the story is open, it continues in a second file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from glob import escape
from hashlib import sha256
from math import inf
from pathlib import Path
from secrets import token_hex
from sys import intern
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from srbwriter import paths
from srbwriter.story.model import (
    ROOT,
    JsonObject,
    NotAStory,
    NotSaved,
    Progress,
    ReadOnly,
    as_object,
    counted,
)
from srbwriter.story.node import Node
from srbwriter.story.tree import Action, Rows
from srbwriter.story.upgrade import OLD, read_old
from srbwriter.story.words import words_of

log = logging.getLogger(__name__)

SUFFIX = ".srbw"
VERSION = 8

LONGEST_NAME = 150
"""Bytes of a file name. File systems allow 255; a number, a suffix and names beside it need room."""

DELAY_SECONDS = 0.4
"""Longest time from a change to the beginning of its write."""

REST_SECONDS = 1.0
"""From the last write until the file is written anew, if it has become long."""

SPARE = 2**20
"""Bytes of rows that are not valid any more, which a file may hold in any case."""

# -- errors of the disk ------------------------------------------------------------------------------

_CURES = {
    errno.ENOENT: "there is no such file — check the name, and that its disk is there",
    errno.ENAMETOOLONG: "the name is too long — choose a shorter one",
    errno.EISDIR: "is a folder — name a file in it",
    errno.EAGAIN: "the story is open in another window — close it there, and try again",
    errno.EEXIST: "a file of that name is already there — choose another name, or open it",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "access is not permitted — choose another place"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "the disk is full — free some space, and try again"),
}


def in_brief(error: OSError) -> str:
    """Return the message for a system error, with a cure."""
    return _CURES.get(error.errno or 0) or f"{error.strerror or error} — choose another place"


@contextmanager
def saving(path: Path) -> Generator[None]:
    """Turn the system's errors about ``path`` into NotSaved."""
    try:
        yield
    except OSError as error:
        raise NotSaved(path, in_brief(error)) from error


# -- names and the lock ------------------------------------------------------------------------------


def numbered(folder: Path, stem: str) -> Path:
    """Return an unused path in ``folder`` for a story; with a number if there is one of that name."""
    path, number = folder / f"{stem}{SUFFIX}", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}{SUFFIX}", number + 1
    return path


def state_of(file: Path | int) -> tuple[int, ...] | None:
    """Return device, inode, size and time of change of a file; None if it does not exist."""
    with suppress(OSError):
        stat = os.stat(file)
        return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
    return None


def lock_of(path: Path) -> Path:
    """Return the path of the lock file beside a story."""
    return path.with_name(f".{path.name}.lock")


def changes_of(path: Path) -> Path:
    """Return where a program that has the story at ``path`` open keeps what it has changed since."""
    name = sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return paths.state_dir() / "changes" / f"{name}.srbw"


def drop(*files: Path) -> None:
    """Remove files, where that is possible."""
    for file in files:
        with suppress(OSError):
            file.unlink()


def remove(path: Path) -> None:
    """Remove a story file and what belongs to it, also what a killed program was writing."""
    parts = path.parent.glob(f".{escape(path.name)}.*.part")
    for file in (path, changes_of(path), Path(f"{path}-journal"), Path(f"{path}-wal"), *parts):
        file.unlink(missing_ok=True)


def place(path: Path, target: Path) -> None:
    """Rename a file without overwriting another. Raises OSError; FileExistsError if there is one."""
    try:
        os.link(path, target)  # unlike a rename, a link never overwrites
    except OSError:  # there is one, or the file system has no links
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        path.rename(target)
    else:
        path.unlink()


def move(path: Path, target: Path) -> None:
    """Move a closed story. Raises NotSaved, also where there is a file already."""
    with saving(target), closing(FileLock(path.resolve())):
        place(path, target)


class FileLock:
    """The lock that gives a story one writer, until it is closed.

    A file beside the story is locked, since the story's own may be replaced. The system releases the lock
    when the process ends; the file is still there if the process was killed. Raises OSError:
    BlockingIOError if the story has a writer.
    """

    def __init__(self, path: Path) -> None:
        self.path = lock_of(path)
        while True:
            self._file = open(self.path, "ab", opener=paths.open_own)  # noqa: SIM115
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._file.close()
                raise
            if state_of(self.path) == state_of(self._file.fileno()):
                break
            self._file.close()  # its last holder removed it meanwhile

    def close(self) -> None:
        drop(self.path)
        self._file.close()


# -- lines -------------------------------------------------------------------------------------------

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=msgspec.to_builtins)
_TYPES: dict[str, Any] = {"node": Node, "action": Action, "day": Progress, "value": Any}


def line(value: Any) -> bytes:
    """Return ``value`` as a line of a file."""
    body = _ENCODER.encode(value).encode("utf-8", "surrogatepass")
    return b"%08x %b\n" % (crc32(body), body)


def batch_of(rows: Rows, token: str, summary: JsonObject) -> bytes:
    """Return a batch of rows."""
    head = [line([table, key, row]) for (table, key), row in rows.items()]
    return b"".join([*head, line(["end", token, summary])])


def _value_of(raw: bytes) -> Any:
    """Return what a line holds; None if it is not as it was written."""
    body = raw[9:-1]
    if raw != b"%08x %b\n" % (crc32(body), body):
        return None
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:  # it takes less than the encoder writes: no infinity, no lone surrogate
        return json.loads(body.decode("utf-8", "surrogatepass"))


def _row_of(table: str, row: Any) -> Any:
    """Return a row as it is in memory; None for one that is gone, or an action in an unreleased form."""
    if table == "node" and isinstance(row[15], str):  # tags in that form
        row[15] = row[15].split("\n") if row[15] else []
    with suppress(msgspec.ValidationError):
        return row and msgspec.convert(row, _TYPES[table])
    return None


def summary_of(rows: Rows) -> JsonObject:
    """Return what a list of stories shows."""
    here, texts = rows.get(("value", "current"), ROOT), list[str]()
    while (row := rows.get(("node", here))) is not None:
        texts.append(row.text)
        here = row.parent
    return {"title": rows.get(("value", "title"), ""), "words": words_of("".join(reversed(texts)))}


# -- the file ----------------------------------------------------------------------------------------


class RowFile(msgspec.Struct):
    """A story's file: its rows when it was read, and the state in which this program knows it.

    Its first batch ends at byte ``whole``, the last one at ``end`` with ``token``; an older version has none.
    ``problem`` says what of it is lost, and ``read_only`` why it has no ``lock``.
    """

    path: Path
    rows: Rows = {}
    token: str = ""
    whole: int = 0
    end: int = 0
    seen: tuple[int, ...] | None = None
    summary: JsonObject = {}
    problem: str = ""
    lock: FileLock | None = None
    tokens: list[str] = []
    read_only: ReadOnly | None = None
    second_file: Path | None = None

    def is_ours(self) -> bool:
        """Whether the file is still the one that was read or written last. Raises OSError."""
        now = state_of(self.path)
        if now != self.seen:
            with suppress(NotAStory, FileNotFoundError, NotADirectoryError):
                if (found := last_batch(self.path)).token == self.token:
                    self.seen, self.end = now, found.end  # an earlier copy may be longer
        return now == self.seen

    def append(self, batches: bytes, token: str) -> None:
        """Write batches, of which ``token`` is the last, behind those that the file holds.

        Raises OSError, also for another file than the one that was seen; then the file holds what it did.
        """
        with self.path.open("r+b", buffering=0) as file:
            if state_of(file.fileno()) != self.seen:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            try:
                file.truncate(self.end)
                file.seek(self.end)
                if file.write(batches) < len(batches):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(self.end)
                raise
            self.seen = state_of(file.fileno())
        self.end += len(batches)
        self.token = token


def write_story(path: Path, rows: Rows, *, instead: RowFile | None = None) -> RowFile:
    """Write a story file, whole or not at all; with ``instead``, in the place of that one.

    Raises OSError; without it FileExistsError, if there is one.
    """
    part = path.with_name(f".{paths.shortened(path.name, LONGEST_NAME)}.{os.getpid()}.part")
    token = (instead and instead.token) or token_hex(8)
    data = line({"srbwriter": VERSION}) + batch_of(rows, token, summary_of(rows))
    try:
        paths.write_durable(part, data, paths.open_own)
        if instead is None:
            place(part, path)
        elif instead.is_ours():
            os.chmod(part, path.stat().st_mode & 0o777)
            os.replace(part, path)  # until the disk knows the new name, the old file has all that is saved
        else:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    finally:
        part.unlink(missing_ok=True)
    return RowFile(path, rows, token, len(data), len(data), state_of(path))


def write_second(path: Path, rows: Rows) -> RowFile:
    """Write the writer's version of a story, whose file another program has replaced, beside it."""
    rows["value", "title"] = f"{rows.get(('value', 'title')) or path.stem} (your version)"
    return write_story(numbered(path.parent, f"{path.stem[:LONGEST_NAME]}-your-version"), rows)


def read(path: Path, *, torn: bool | None = None) -> RowFile:
    """Read a story of any version, also a damaged one. Changes nothing.

    ``torn``: the last batch may be torn, since a program writes there or was killed; None to find out. Rows
    that are gone are None. Raises NotAStory or OSError.
    """
    found, batch = RowFile(path), dict[tuple[str, Any], Any]()
    at = broken = lost = 0
    with path.open("rb") as file:
        found.seen = state_of(file.fileno())
        is_old = file.read(len(OLD)) == OLD
        file.seek(0)
        for raw in () if is_old else file:
            at += len(raw)
            match _value_of(raw):
                case ["end", str(token), summary]:
                    found.rows |= batch
                    batch, lost = {}, broken
                    found.token = token
                    found.tokens.append(token)
                    found.whole, found.end, found.summary = found.whole or at, at, as_object(summary)
                case [str(table), int() | str() as key, row]:
                    batch[intern(table), key] = _row_of(table, row)
                case {"srbwriter": int(version)}:
                    if version > VERSION:
                        raise NotAStory(path, f"is of story version {version} — install a newer srbwriter")
                case _:
                    broken += 1
    if is_old:
        found.rows = read_old(path)
        found.summary = summary_of(found.rows)
    elif not (found.end or batch or (path.suffix == SUFFIX and at and at % 4096 == 0)):
        cure = "delete it to begin a story there" if not at else "`srbwriter import` reads other files"
        raise NotAStory(path, f"is {'empty' if not at else 'not a story'} — {cure}")
    if lost:
        found.problem = f"{counted(lost, 'line')} of it cannot be read"
    if at > found.end and not (found.end and (lock_of(path).exists() if torn is None else torn)):
        found.rows |= batch
        found.problem = "its end is lost"
    if not found.rows:  # of an older version, whose files have pages of 4096 bytes, perhaps
        found.problem = "nothing of it can be read"
    return found


def last_batch(path: Path) -> RowFile:
    """Return token, end and summary of the last batch, without reading the file if it ends well."""
    with path.open("rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - 8192, 0))  # the last line is in what follows
        tail, end = file.read(), file.tell()
    match _value_of(tail[tail.rfind(b"\n", 0, -1) + 1 :]):
        case ["end", str(token), summary]:
            return RowFile(path, token=token, end=end, summary=as_object(summary))
        case _:
            return read(path)


# -- the journal -------------------------------------------------------------------------------------


class SaveState(NamedTuple):
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

    ``put``, ``state``, ``flush`` and ``close`` are for any thread. The rest is what its own thread does.

    Args:
        whole: returns all rows of the story in memory.
        summary: returns what a list of stories shows, as the story is now.
        moved: called with the second file, after another program has replaced the first.
    """

    def __init__(
        self, file: RowFile, whole: Callable[[], Rows], summary: Callable[[], JsonObject],
        moved: Callable[[Path], object],
    ) -> None:  # fmt: skip
        self.file, self._kept = file, changes_of(file.path)
        self._whole, self._summary, self._moved = whole, summary, moved
        file.rows = {}
        self._pending, self._token = b"", ""  # batches that the file has not taken, and their last token
        self._gap = False  # whether one of them is not kept
        self._wake = threading.Condition()
        self._waiting: Rows = {}
        self._since: float | None = None  # the time of the oldest change that is not on the disk
        self._due, self._closing = inf, False  # when the next write begins, and whether it is the last
        self._trouble: NotSaved | None = None
        self._thread = threading.Thread(target=self._run, name="srbwriter-journal", daemon=True)

    def put(self, rows: Rows) -> None:
        """Write ``rows`` behind what was put before."""
        with self._wake:
            now = time.monotonic()
            self._since = self._since or now
            self._due = min(self._due, now + DELAY_SECONDS)
            self._waiting |= rows
            if self._thread.ident is None and not self._closing:
                self._thread.start()
            self._wake.notify_all()

    @property
    def state(self) -> SaveState:
        with self._wake:
            age = time.monotonic() - self._since if self._since is not None else 0.0
            rescue = self._kept if self._trouble is not None and state_of(self._kept) else None
            return SaveState(self._since is None, age, self._trouble, rescue)

    def flush(self) -> None:
        """Wait until everything that was put is on the disk. Raises NotSaved if an attempt fails."""
        with self._wake:
            asked, known = time.monotonic(), (None, self._trouble)
            if self._since is None:
                return
            self._due = 0.0
            self._wake.notify_all()
            self._wake.wait_for(lambda: (self._since or inf) > asked or self._trouble not in known, 60)
            if (self._since or inf) <= asked:
                raise self._trouble or NotSaved(self.file.path, "the disk does not answer")

    def close(self) -> None:
        """Write everything and release the lock. Raises NotSaved; then the words are kept elsewhere."""
        with self._wake:
            self._due, self._closing = 0.0, True
            self._wake.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        if self.file.lock is not None:
            if self._trouble is None:
                drop(self._kept)
            self.file.lock.close()
            self.file.lock = None
        if self._trouble is not None:
            raise self._trouble

    def _run(self) -> None:
        last = False
        while not last:
            with self._wake:
                while (seconds := self._due - time.monotonic()) > 0:
                    self._wake.wait(min(seconds, threading.TIMEOUT_MAX))
                rows, self._waiting, self._due = self._waiting, {}, inf
                last, resting, began = self._closing, self._since is None, time.monotonic()
            trouble = None
            try:
                if resting and not last:
                    with suppress(OSError):  # otherwise it stays long
                        self._write_whole()
                    self.file.whole = self.file.end
                else:  # the last time only to look whose the file is, perhaps
                    self._write(rows)
            except Exception as error:  # of whatever kind, the rows are kept
                trouble = error if isinstance(error, NotSaved) else NotSaved(self.file.path, repr(error))
                log.warning("not saved: %s", trouble)
            with self._wake:
                now, self._trouble = time.monotonic(), trouble
                if trouble is not None:
                    self._waiting = rows | self._waiting
                    self._since = self._since or began
                    # New words are kept elsewhere without delay, also where attempts are far apart.
                    self._due = min(self._due, now + min(now - self._since, 4.0))
                else:
                    self._since = began if self._waiting else None
                    if self.file.end > 2 * self.file.whole + SPARE:
                        self._due = min(self._due, now + REST_SECONDS)
                self._wake.notify_all()

    def _write(self, rows: Rows) -> None:
        """Write what is pending and ``rows``, which is empty then, behind what the file holds."""
        if rows:
            self._token = token_hex(8)
            batch = batch_of(rows, self._token, self._summary() | {"held": self.file.token})
            self._keep(batch)
            self._pending += batch
            rows.clear()
        with saving(self.file.path):
            if not self.file.is_ours():
                self._write_whole()
            elif self._pending:
                self.file.append(self._pending, self._token)
                self._keep(batch_of({}, self._token, {"held": self._token}))
        self._pending = b""

    def _keep(self, batch: bytes) -> None:
        """Keep a batch on the writer's own disk too, behind those that the file has not taken."""
        try:
            paths.make_folder(self._kept.parent)
            with open(self._kept, "ab", opener=paths.open_own) as kept:
                kept.write((b"\n" + self._pending) * self._gap + batch)  # behind what was torn
                kept.flush()
                if self._trouble is not None:
                    os.fsync(kept.fileno())
            self._gap = False
        except OSError as error:
            log.warning("changes are not kept beside the story's file: %s", error)
            self._gap = True
            if self.file.token == self._token:  # which has all of them
                drop(self._kept)

    def _write_whole(self) -> None:
        """Write the story as it is in memory: anew, in the place of a deleted file, or to a second one."""
        first, rows = self.file, self._whole()
        there = first.path.exists()
        if not there or first.is_ours():
            file = write_story(first.path, rows, instead=first if there else None)
        else:
            file = write_second(first.path, rows)
            file.lock = FileLock(file.path)
        kept, self._kept = self._kept, changes_of(file.path)
        drop(kept, self._kept)
        self.file, file.rows, file.lock = file, {}, file.lock or first.lock
        if first.lock is not None and first.lock is not file.lock:
            first.lock.close()
            self._moved(file.path)
