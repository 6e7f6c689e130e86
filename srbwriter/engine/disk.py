"""States of evaluated tokens in files: a cache that outlives the program.

A file holds the state of one piece of a path, with the tokens it belongs to, and is named after all tokens
up to its end and the namespace they are in: what the model was changed by, if anything. It is bound to one
model file, one build of llama.cpp and one kind of cache; anything that is damaged, cut short, foreign or
older is removed and evaluated again. Files are written by a thread of their own, whole or not at all. Knows
bytes and token ids; knows no cells and no sequences.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import queue
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srbwriter import paths

log = logging.getLogger(__name__)

_MAGIC = b"srbwriter kv 1\n"
_SESSION = b"session of "  # stands before it where the states are those of a whole path
_DIGEST = 16  # bytes of BLAKE2b
_LENGTH = struct.Struct("<I")
_LONGEST_HEADER = 1 << 20
SUFFIX = ".kv"
DISK_BYTES = 4 << 30
_SAMPLES, _SAMPLE_BYTES = 32, 1 << 16
_WAITING_BYTES = 256 << 20
"""Bytes that may wait to be written; what comes then is not written at all, so that no step ever waits."""


class File:
    """One file of the cache: tokens [start, end) of a path; ``size`` is that of the state, in bytes."""

    __slots__ = ("end", "name", "size", "start")

    def __init__(self, name: str, start: int, end: int, size: int) -> None:
        self.name, self.start, self.end, self.size = name, start, end, size


class Part(NamedTuple):
    """The state of tokens [start, end) of a path."""

    start: int
    end: int
    state: NDArray[np.uint8]


def write_session(path: Path, key: str, ids: Sequence[int], parts: Sequence[Part], wanted: int) -> int:
    """Write what was made of ``ids`` to one file, whole or not at all; its size in bytes.

    The session is the first ``wanted`` of them; states may reach beyond it. Raises OSError.
    """
    told = {
        "key": key,
        "wanted": wanted,
        "parts": [(part.start, part.end, int(part.state.size)) for part in parts],
    }
    return _write_whole(path, _SESSION + _head(told, ids), [part.state for part in parts])


def read_session(path: Path, key: str) -> tuple[list[int], list[Part], int]:
    """Token ids, their states, and how many of the ids are the session, as :func:`write_session` wrote them.

    ``key`` has to be the same. Raises OSError, or ValueError for a file that is damaged, or another model's.
    """
    data = path.read_bytes()
    if not data.startswith(_SESSION + _MAGIC) or not _intact(data):
        raise ValueError("no saved session, or a damaged one")
    place = len(_SESSION) + len(_MAGIC)
    (length,) = _LENGTH.unpack_from(data, place)
    place += _LENGTH.size
    header = json.loads(data[place : place + length])
    if header["key"] != key:
        raise ValueError("a session of another model, build or kind of cache")
    place += length
    ids = np.frombuffer(data, "<i4", header["tokens"], place).tolist()
    place += 4 * len(ids)
    parts: list[Part] = []
    for start, end, size in header["parts"]:
        parts.append(Part(start, end, np.frombuffer(data, np.uint8, size, place)))
        place += size
    return ids, parts, header.get("wanted", len(ids))


class DiskCache:
    """The files of one kind of state in ``folder``, at most ``budget`` bytes of them.

    Args:
        key: names model, build and cache; files with another one are somebody else's.
    """

    def __init__(self, folder: Path, key: str, budget: int = DISK_BYTES) -> None:
        self.folder = folder / key
        self.key, self.budget = key, budget
        self._jobs: queue.SimpleQueue[tuple[File, bytes, NDArray[np.uint8]] | None] = queue.SimpleQueue()
        self._waiting = 0  # bytes
        self._lock = threading.Lock()
        self._written = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._sizes: dict[str, int] = {}  # of the whole files, oldest first
        with contextlib.suppress(OSError):
            found = [(entry.stat().st_mtime, entry.name, entry.stat().st_size) for entry in self._scan()]
            self._sizes = {name: size for _, name, size in sorted(found)}

    @property
    def bytes(self) -> int:
        """What the files take."""
        with self._lock:
            return sum(self._sizes.values())

    # ---- reading

    def entries(self, namespace: str = "", common: Sequence[int] = ()) -> Iterator[tuple[list[int], File]]:
        """Every file of a namespace whose path is known, with all tokens up to its end.

        What one hangs on comes before it. Paths begin with nothing, or with ``common``, of which no file of
        the namespace itself is needed.
        """
        waiting: dict[str, list[tuple[list[int], File]]] = {}
        for name in list(self._sizes):
            header = self._header(name)
            if header is not None:
                parent, tokens, file = header
                waiting.setdefault(parent, []).append((tokens, file))
        ready: list[tuple[list[int], int]] = [([], 0)]  # tokens of a path, and from where they are new
        if common:
            ready.append((list(common), len(common)))
        while ready:
            path, new = ready.pop()
            hashed = _Running(path[:new], namespace)
            for end in range(new, len(path) + 1):
                if end > new:
                    hashed.add(path[end - 1])
                for tokens, file in waiting.pop(hashed.hex(), ()):
                    ids = [*path[:end], *tokens]
                    yield ids, file
                    ready.append((ids, end))

    def read(self, file: File) -> NDArray[np.uint8] | None:
        """The state in a file; None, and the file is gone, when it is not exactly what was written."""
        path = self.folder / file.name
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return self._forget(file.name)
        start = len(data) - _DIGEST - file.size
        if start < len(_MAGIC) or not _intact(data):
            log.warning("%s is damaged: its tokens are evaluated again", path)
            return self._forget(file.name)
        return np.frombuffer(data, np.uint8, file.size, start)

    # ---- writing

    def write(
        self, before: Sequence[int], tokens: Sequence[int], state: NDArray[np.uint8], namespace: str = ""
    ) -> File | None:
        """Write the state of ``tokens``, which come after ``before``; in the background.

        None when it is not to be written: the disk is too far behind, or the state is larger than the budget.
        """
        name = digest([*before, *tokens], namespace) + SUFFIX
        file = File(name, len(before), len(before) + len(tokens), int(state.size))
        with self._lock:
            if file.name in self._sizes:
                return file
            if self._waiting + file.size > _WAITING_BYTES or file.size > self.budget:
                return None
            self._waiting += file.size
        header = {
            "key": self.key,
            "parent": digest(before, namespace),
            "start": file.start,
            "size": file.size,
        }
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="srbwriter-kv", daemon=True)
            self._thread.start()
        self._jobs.put((file, _head(header, tokens), state))
        return file

    def flush(self) -> None:
        """Return when everything has been written, or could not be."""
        with self._written:
            self._written.wait_for(lambda: not self._waiting)

    def close(self) -> None:
        """Write what is left and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(10)
            self._thread = None

    def clear(self) -> None:
        """Remove every file."""
        self.flush()
        for name in list(self._sizes):
            self._forget(name)

    # ---- inside

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            file, head, state = job
            try:
                self._write(file, head, state)
            except OSError as error:
                log.warning("a state could not be written to %s: %s", self.folder, error)
            finally:
                with self._written:
                    self._waiting -= file.size
                    self._written.notify_all()

    def _write(self, file: File, head: bytes, state: NDArray[np.uint8]) -> None:
        paths.make_folder(self.folder)  # states can be read back into words
        size = _write_whole(self.folder / file.name, head, [state])
        with self._lock:
            self._sizes[file.name] = size
            total = sum(self._sizes.values())
            names = list(self._sizes)
        for name in names:
            if total <= self.budget:
                return
            total -= self._sizes.get(name, 0)
            self._forget(name)

    def _header(self, name: str) -> tuple[str, list[int], File] | None:
        """Digest of what comes before, tokens, and the file; None, and it is gone, for one that is none."""
        try:
            with (self.folder / name).open("rb") as source:
                magic = source.read(len(_MAGIC))
                (length,) = _LENGTH.unpack(source.read(_LENGTH.size))
                if magic != _MAGIC or length > _LONGEST_HEADER:
                    raise ValueError("not a state")
                header = json.loads(source.read(length))
                count = header["tokens"]
                if header["key"] != self.key or not 0 < count <= _LONGEST_HEADER:
                    raise ValueError("another model's")
                tokens = np.frombuffer(source.read(4 * count), "<i4", count).tolist()
            start, size, parent = int(header["start"]), int(header["size"]), str(header["parent"])
            fits = self._sizes[name] == len(_MAGIC) + _LENGTH.size + length + 4 * count + size + _DIGEST
            if not fits or start < 0:
                raise ValueError("cut short")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
            self._forget(name)
            return None
        return parent, tokens, File(name, start, start + count, size)

    def _scan(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self.folder) as entries:
            yield from (e for e in entries if e.name.endswith(SUFFIX) and e.is_file(follow_symlinks=False))

    def _forget(self, name: str) -> None:
        with self._lock:
            self._sizes.pop(name, None)
        with contextlib.suppress(OSError):
            (self.folder / name).unlink()


def _write_whole(path: Path, head: bytes, states: Sequence[NDArray[np.uint8]]) -> int:
    """Head, states and a digest of them all, beside the file first; bytes written. Raises OSError."""
    whole = hashlib.blake2b(head, digest_size=_DIGEST)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb", opener=paths.open_own) as out:
            out.write(head)
            for state in states:
                out.write(state.data)
                whole.update(state.data)
            out.write(whole.digest())
            size = out.tell()
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return size


class _Running:
    """Digest of token ids that are added one by one."""

    def __init__(self, ids: Sequence[int], namespace: str) -> None:
        self._hash = hashlib.blake2b(namespace.encode() + _packed(ids), digest_size=_DIGEST)

    def add(self, token: int) -> None:
        self._hash.update(_packed((token,)))

    def hex(self) -> str:
        return self._hash.hexdigest()


def state_key(model: Path, *kind: str) -> str:
    """Names the states of one model file, as this build of llama.cpp makes them with a cache of a ``kind``.

    A file is told by its size and by samples from all over it: one of gigabytes is not read for this.
    """
    from importlib.metadata import version

    told = hashlib.blake2b(digest_size=_DIGEST)
    with model.open("rb") as source:
        size = source.seek(0, os.SEEK_END)
        told.update(f"{size} {version('llama-cpp-python')} {' '.join(kind)}".encode())
        for part in range(_SAMPLES):
            source.seek(size * part // _SAMPLES)
            told.update(source.read(_SAMPLE_BYTES))
        source.seek(max(size - _SAMPLE_BYTES, 0))
        told.update(source.read())
    return told.hexdigest()


def digest(ids: Sequence[int], namespace: str = "") -> str:
    """Names a path by its token ids and its namespace."""
    return _Running(ids, namespace).hex()


def _packed(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, "<i4").tobytes()


def _head(header: Mapping[str, object], tokens: Sequence[int]) -> bytes:
    text = json.dumps({**header, "tokens": len(tokens)}).encode()
    return _MAGIC + _LENGTH.pack(len(text)) + text + _packed(tokens)


def _intact(data: bytes) -> bool:
    view = memoryview(data)
    return hashlib.blake2b(view[:-_DIGEST], digest_size=_DIGEST).digest() == bytes(view[-_DIGEST:])
