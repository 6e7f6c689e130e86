"""The file of a story: rows as lines of JSON, in batches, and the lock that gives it one writer.

A line is a checksum and JSON: a row is [table, key, value], where null is a row that is gone, and
["end", token, summary] ends a batch. A later row takes the place of an earlier one, and what is behind the
last end was never written whole. The random tokens of its batches tell whose file it is: another program may
have put one in its place. Of a damaged file every readable row is kept.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from glob import escape
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from sys import intern
from typing import Any
from zlib import crc32

import msgspec

from srbwriter import paths
from srbwriter.story.model import (
    ROOT,
    Damage,
    DamagedStory,
    JsonObject,
    NotAStory,
    NotSaved,
    Progress,
    ReadOnly,
    StoryError,
    TooNew,
    as_object,
)
from srbwriter.story.node import Node, fits
from srbwriter.story.tree import Action, Rows
from srbwriter.story.upgrade import OLD, read_old
from srbwriter.story.words import words_of

SUFFIX = ".srbw"
VERSION = 8

LONGEST_NAME = 150
"""Bytes of a file name. File systems allow 255; a number, a suffix and names beside it need room."""

_KEY = re.compile(rb'\w{8} \["node",(\d+),')
_TAIL = 8192  # bytes at the end of a file that hold the end of its last batch

# -- errors of the disk ------------------------------------------------------------------------------

_CLOSED = "access is not permitted — change the permissions, or choose another place"
_IN_THE_WAY = "a file is where a folder should be — check the name, or choose another place"
_CURES = {
    errno.ENOENT: "there is no such file — check the name, and that its disk is there",
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.EISDIR: "is a folder — name a file in it",
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EIO: "the disk does not answer as it should — choose another place",
    errno.EROFS: "nothing can be written there — choose another place",
    errno.ENOSPC: "the disk is full — free some space, and try again",
    errno.EDQUOT: "the disk is full for you — free some space, and try again",
    errno.ENAMETOOLONG: "the name is too long — choose a shorter one",
}


class Taken(NotAStory):
    """A file of that name exists already."""


def in_brief(error: OSError) -> str:
    """Return the message for a system error, with a cure if there is one."""
    return _CURES.get(error.errno or 0) or error.strerror or str(error)


@contextmanager
def saving(path: Path) -> Generator[None]:
    """Turn the system's errors about ``path`` into NotSaved."""
    try:
        yield
    except OSError as error:
        problem = in_brief(error)
        if isinstance(error, BlockingIOError):
            problem = f"the story {error.strerror} — close it there, and try again"
        raise NotSaved(path, problem) from error


# -- names and the lock ------------------------------------------------------------------------------


def state_of(file: Path | int) -> tuple[int, ...] | None:
    """Return device, inode, size and time of change of a file; None if it does not exist."""
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
    """Remove a story file and what belongs to it, also what a killed program was writing."""
    parts = path.parent.glob(f".{escape(path.name)}.*.part")
    for file in (path, changes_of(path), Path(f"{path}-journal"), Path(f"{path}-wal"), *parts):
        file.unlink(missing_ok=True)


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


def move(path: Path, target: Path) -> Path:
    """Move a closed story, and return its new path. Raises Taken, or NotSaved if the story is open."""
    if not path.is_file():
        raise NotAStory(path, "does not exist")
    with saving(path), closing(FileLock(path.resolve())):
        place(path, target)
    return target


class FileLock:
    """The lock that gives a story one writer, until it is closed. Raises OSError; BlockingIOError says where.

    A file beside the story is locked, since the story's own may be replaced. The system releases the lock
    when the process ends; the file is still there if the process was killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = lock_of(path)
        while True:
            self._file = open(self.path, "a+b", buffering=0, opener=paths.open_own)  # noqa: SIM115
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if state_of(self.path) == state_of(self._file.fileno()):
                    break
            except BlockingIOError as error:
                self._file.seek(0)
                holder = self._file.read(1000).decode("utf-8", "replace") or "another process"
                self._file.close()
                raise BlockingIOError(error.errno, f"is open in {holder}") from None
            self._file.close()  # its last holder removed it meanwhile
        with suppress(OSError):
            self._file.truncate(0)
            self._file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())

    def close(self) -> None:
        with suppress(OSError):
            self.path.unlink()
        self._file.close()


# -- lines -------------------------------------------------------------------------------------------


_FAST, _DECODER = msgspec.json.Decoder(), json.JSONDecoder()
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=msgspec.to_builtins)
_TYPES: dict[str, Any] = {"node": Node, "action": Action, "day": Progress, "value": Any}


def line(value: Any) -> bytes:
    """Return ``value`` as a line of a file."""
    body = _ENCODER.encode(value).encode("utf-8", "surrogatepass")
    return b"%08x %b\n" % (crc32(body), body)


def lines(rows: Rows, token: str, summary: JsonObject) -> Iterator[bytes]:
    """Yield the lines of a batch."""
    for (table, key), row in rows.items():
        yield line([table, key, row])
    yield line(["end", token, summary])


def _read_line(raw: bytes) -> tuple[Any, bool]:
    """Return the value of a line, None for none, and whether it is as it was written."""
    body = raw[9:-1]
    try:
        try:
            value = _FAST.decode(body)
        except msgspec.DecodeError:  # it takes less than the encoder writes: no infinity, no lone surrogate
            value, _ = _DECODER.raw_decode(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None, False
    return value, raw[-1:] == b"\n" and raw[:8] == b"%08x" % crc32(body)


def summary_of(rows: Rows) -> JsonObject:
    """Return what a list of stories shows."""
    here, texts = rows.get(("value", "current"), ROOT), list[str]()
    while (row := rows.get(("node", here))) is not None:
        texts.append(row.text)
        here = row.parent
    words, nodes = words_of("".join(reversed(texts))), sum(table == "node" for table, _ in rows)
    return {"title": rows.get(("value", "title"), ""), "words": words, "nodes": nodes}


# -- the file ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class RowFile:
    """A story's file: its rows when it was read, and the state in which this program knows it.

    Its first batch ends at byte ``whole``, the last one at ``end`` with ``token``; an older version has none.
    ``read_only`` says why it has no ``lock``.
    """

    path: Path
    rows: Rows = field(default_factory=dict[tuple[str, Any], Any])
    token: str = ""
    whole: int = 0
    end: int = 0
    seen: tuple[int, ...] | None = None
    summary: JsonObject = field(default_factory=dict[str, Any])
    damage: Damage | None = None
    lock: FileLock | None = None
    tokens: list[str] = field(default_factory=list[str])
    read_only: ReadOnly | None = None
    second_file: Path | None = None

    def is_ours(self) -> bool:
        """Whether the file is still the one that was read or written last."""
        now = state_of(self.path)
        if now != self.seen:
            with suppress(StoryError, OSError):
                if last_batch(self.path).token == self.token:
                    self.seen = now
        return now == self.seen

    def append(self, batches: bytes, token: str, *, sync: bool = True) -> None:
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
                if sync:
                    os.fsync(file.fileno())
            except OSError:
                file.truncate(self.end)
                raise
            self.seen = state_of(file.fileno())
        self.end += len(batches)
        self.token = token

    def note_damage(self, problem: str, doubtful: set[int]) -> None:
        """Note damage, and let every node that was read hang below the root."""
        self.rows.setdefault(("node", ROOT), Node(ROOT, None))
        nodes = {key: row for (table, key), row in self.rows.items() if table == "node"}
        lost, fine = doubtful - nodes.keys(), {ROOT}
        for start in nodes:
            walked, here = dict[int, None](), start
            while here not in fine and here not in walked and here in nodes:
                walked[here] = None
                here = nodes[here].parent
            if here not in fine:  # its parent is lost, or it is its own ancestor
                last = next(reversed(walked))
                lost |= {here} - nodes.keys() - {None}
                nodes[last].parent = ROOT
            fine |= walked.keys()
        self.damage = Damage(problem, len(nodes), len(lost), tuple(sorted(doubtful & nodes.keys())))


def write_story(
    path: Path, rows: Rows, token: str = "", *, instead: RowFile | None = None, sync: bool = True
) -> RowFile:
    """Write a story file, whole or not at all; with ``instead``, in the place of that one.

    Raises Taken without it, if there is one, or OSError.
    """
    part = path.with_name(f".{paths.shortened(path.name, LONGEST_NAME)}.{os.getpid()}.part")
    token = token or token_hex(8)
    try:
        with open(part, "wb", opener=paths.open_own) as file:
            file.write(line({"srbwriter": VERSION}))
            file.writelines(lines(rows, token, summary_of(rows)))
            file.flush()
            if sync:
                os.fsync(file.fileno())
            end = file.tell()
        if instead is None:
            place(part, path)
        elif instead.is_ours():
            os.chmod(part, path.stat().st_mode & 0o777)
            os.replace(part, path)  # until the disk knows the new name, the old file has all that is saved
        else:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    finally:
        part.unlink(missing_ok=True)
    return RowFile(path, rows, token, end, end, state_of(path))


def read(path: Path, *, torn: bool | None = None) -> RowFile:
    """Read a story of any version, also a damaged one. Changes nothing.

    ``torn``: the last batch may be torn, since a program writes there or was killed; None to find out. Rows
    that are gone are None. Raises NotAStory, TooNew, DamagedStory or OSError.
    """
    found = RowFile(path)
    rows, batch, known = found.rows, dict[tuple[str, Any], Any](), 0
    doubtful, unsure = set[int | None](), set[int | None]()  # nodes, and None for what cannot be told
    at = 0
    with path.open("rb") as file:
        found.seen = state_of(file.fileno())
        if file.read(len(OLD)) == OLD:
            rows = read_old(path)
            return RowFile(path, rows, seen=found.seen, summary=summary_of(rows))
        file.seek(0)
        for raw in file:
            at += len(raw)
            value, good = _read_line(raw)
            known += good
            match value:
                case ["end", str(token), summary] if good:
                    doubtful = unsure | {key for key in doubtful if ("node", key) not in batch}
                    rows |= batch
                    batch, unsure = {}, set[int | None]()
                    found.token = token
                    found.tokens.append(token)
                    found.whole, found.end, found.summary = found.whole or at, at, as_object(summary)
                case [str(table), int() | str() as key, row] if good:
                    batch[intern(table), key] = row if row is None else msgspec.convert(row, _TYPES[table])
                case {"srbwriter": int(version)} if good:
                    if version > VERSION:
                        why = f"is of story version {version}, {VERSION} is the newest known here"
                        raise TooNew(path, f"{why} — install a newer srbwriter")
                case ["node", int(key), row] if fits(row) and row[0] == key:
                    batch["node", key] = msgspec.convert(row, Node)
                    unsure.add(key)
                case _:
                    lost = _KEY.match(raw)
                    unsure.add(int(lost[1]) if lost else None)
    if not known:
        if path.suffix == SUFFIX and at and at % 4096 == 0:  # of an older version, perhaps
            raise DamagedStory(path, "nothing of it can be read")
        cure = "delete it to begin a story there" if not at else "`srbwriter import` reads other files"
        raise NotAStory(path, f"is {'empty' if not at else 'not a story'} — {cure}")
    problem = "a part of it cannot be read" if None in doubtful else "some text is not as it was written"
    if at > found.end and not (found.end and (lock_of(path).exists() if torn is None else torn)):
        rows |= batch
        doubtful, problem = doubtful | unsure | {None}, "its end is lost"
    if doubtful:
        found.note_damage(problem, {key for key in doubtful if key is not None})
    return found


def last_batch(path: Path) -> RowFile:
    """Return token and summary of the last batch, without reading the file if it ends well."""
    with path.open("rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _TAIL, 0))
        tail = file.read()
    match _read_line(tail[tail.rfind(b"\n", 0, -1) + 1 :]):
        case (["end", str(token), summary], True):
            return RowFile(path, token=token, summary=as_object(summary))
        case _:
            return read(path)
