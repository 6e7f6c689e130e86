"""States of evaluated tokens in files: a cache that outlives the program.

A file holds one block of a path, with its tokens. Its name is a digest of all tokens up to its end and of
their namespace. A file is bound to one model file, one build of llama.cpp and one kind of cache; files that
are damaged, cut short or from elsewhere are removed, and their tokens are evaluated again. A thread writes
the files, each of them whole or not at all. This module knows bytes and token ids, no cells or sequences.
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

from .model_files import sample_digest

log = logging.getLogger(__name__)

_MAGIC = b"srbwriter kv 1\n"
_SESSION = b"session of "  # before the magic of a file with the states of a whole path
_DIGEST = 16  # bytes of BLAKE2b
_LENGTH = struct.Struct("<I")
_LONGEST_HEADER = 1 << 20
SUFFIX = ".kv"
DISK_BYTES = 4 << 30
_WAITING_BYTES = 256 << 20
"""Bytes that may wait to be written; states beyond that are not written, so that no step ever waits."""


class StateFile(NamedTuple):
    """A file of the cache, with tokens [start, end) of a path; ``size`` is that of the state, in bytes."""

    name: str
    start: int
    end: int
    size: int


class SavedState(NamedTuple):
    """The state of tokens [start, end) of a path."""

    start: int
    end: int
    data: NDArray[np.uint8]


def write_session(
    path: Path, key: str, ids: Sequence[int], states: Sequence[SavedState], wanted: int
) -> int:  # fmt: skip
    """Write the states of ``ids`` to one file, whole or not at all; return its size in bytes.

    The session is the first ``wanted`` tokens; the states may reach beyond it. Raises OSError.
    """
    header = {
        "key": key,
        "wanted": wanted,
        "parts": [(state.start, state.end, int(state.data.size)) for state in states],
    }
    return _write_whole(path, _SESSION + _pack_header(header, ids), [state.data for state in states])


def read_session(path: Path, key: str) -> tuple[list[int], list[SavedState], int]:
    """Return the token ids, their states, and how many of the ids are the session; see :func:`write_session`.

    Raises OSError, and ValueError for a file that is damaged or was written with another ``key``.
    """
    data = path.read_bytes()
    if not data.startswith(_SESSION + _MAGIC) or not _is_intact(data):
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
    states: list[SavedState] = []
    for start, end, size in header["parts"]:
        states.append(SavedState(start, end, np.frombuffer(data, np.uint8, size, place)))
        place += size
    return ids, states, header.get("wanted", len(ids))


class DiskCache:
    """The files of one kind of state in ``folder``, at most ``budget`` bytes of them.

    Args:
        key: names model, build and kind of cache; it names the folder of the files too.
    """

    def __init__(self, folder: Path, key: str, budget: int = DISK_BYTES) -> None:
        self.folder = folder / key
        self.key, self.budget = key, budget
        self._jobs: queue.SimpleQueue[tuple[StateFile, bytes, NDArray[np.uint8]] | None] = queue.SimpleQueue()
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
        """Bytes of all files."""
        with self._lock:
            return sum(self._sizes.values())

    # ---- reading

    def entries(
        self, namespace: str = "", common: Sequence[int] = ()
    ) -> Iterator[tuple[list[int], StateFile]]:
        """Yield every file of a namespace whose path is known, with all tokens up to its end, parents first.

        Paths begin with nothing, or with the ``common`` tokens, which need no file of this namespace.
        """
        waiting: dict[str, list[tuple[list[int], StateFile]]] = {}
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
            digest = _digest_path(path[:new], namespace)
            for end in range(new, len(path) + 1):
                digest.update(_pack_ids(path[end - 1 : end] if end > new else ()))
                for tokens, file in waiting.pop(digest.hexdigest(), ()):
                    ids = [*path[:end], *tokens]
                    yield ids, file
                    ready.append((ids, end))

    def read(self, file: StateFile) -> NDArray[np.uint8] | None:
        """Return the state in a file; None, and the file is removed, if it is not what was written."""
        path = self.folder / file.name
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return self._remove(file.name)
        start = len(data) - _DIGEST - file.size
        if start < len(_MAGIC) or not _is_intact(data):
            log.warning("%s is damaged: its tokens are evaluated again", path)
            return self._remove(file.name)
        return np.frombuffer(data, np.uint8, file.size, start)

    # ---- writing

    def write(
        self, before: Sequence[int], tokens: Sequence[int], state: NDArray[np.uint8], namespace: str = ""
    ) -> StateFile | None:
        """Write the state of ``tokens``, which come after ``before``, in the background.

        None if it is not written: too much waits to be written, or the state is larger than the budget.
        """
        name = hash_path([*before, *tokens], namespace) + SUFFIX
        file = StateFile(name, len(before), len(before) + len(tokens), int(state.size))
        with self._lock:
            if file.name in self._sizes:
                return file
            if self._waiting + file.size > _WAITING_BYTES or file.size > self.budget:
                return None
            self._waiting += file.size
        header = {
            "key": self.key,
            "parent": hash_path(before, namespace),
            "start": file.start,
            "size": file.size,
        }
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_queued, name="srbwriter-kv", daemon=True)
            self._thread.start()
        self._jobs.put((file, _pack_header(header, tokens), state))
        return file

    def flush(self) -> None:
        """Wait until everything has been written, or could not be."""
        with self._written:
            self._written.wait_for(lambda: not self._waiting)

    def close(self) -> None:
        """Write all pending states and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(10)
            self._thread = None

    def clear(self) -> None:
        """Remove every file."""
        self.flush()
        for name in list(self._sizes):
            self._remove(name)

    # ---- inside

    def _write_queued(self) -> None:
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

    def _write(self, file: StateFile, head: bytes, state: NDArray[np.uint8]) -> None:
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
            self._remove(name)

    def _header(self, name: str) -> tuple[str, list[int], StateFile] | None:
        """Return the digest of what comes before, the tokens and the file; remove a damaged file."""
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
            self._remove(name)
            return None
        return parent, tokens, StateFile(name, start, start + count, size)

    def _scan(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self.folder) as entries:
            yield from (e for e in entries if e.name.endswith(SUFFIX) and e.is_file(follow_symlinks=False))

    def _remove(self, name: str) -> None:
        with self._lock:
            self._sizes.pop(name, None)
        with contextlib.suppress(OSError):
            (self.folder / name).unlink()


def _write_whole(path: Path, head: bytes, states: Sequence[NDArray[np.uint8]]) -> int:
    """Write head, states and their digest, first to a file beside ``path``; return the size in bytes."""
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


def state_key(model: Path, *kind: str) -> str:
    """Return a name for the states of one model file, this build of llama.cpp and a ``kind`` of cache.

    The model file is identified by its size and by samples from all over it; reading all of it takes long.
    """
    from importlib.metadata import version

    return sample_digest(model, f" {version('llama-cpp-python')} {' '.join(kind)}")


def hash_path(ids: Sequence[int], namespace: str = "") -> str:
    """Return a name for a path: the digest of its token ids and its namespace."""
    return _digest_path(ids, namespace).hexdigest()


def _digest_path(ids: Sequence[int], namespace: str) -> hashlib.blake2b:
    return hashlib.blake2b(namespace.encode() + _pack_ids(ids), digest_size=_DIGEST)


def _pack_ids(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, "<i4").tobytes()


def _pack_header(header: Mapping[str, object], tokens: Sequence[int]) -> bytes:
    text = json.dumps({**header, "tokens": len(tokens)}).encode()
    return _MAGIC + _LENGTH.pack(len(text)) + text + _pack_ids(tokens)


def _is_intact(data: bytes) -> bool:
    view = memoryview(data)
    return hashlib.blake2b(view[:-_DIGEST], digest_size=_DIGEST).digest() == bytes(view[-_DIGEST:])
