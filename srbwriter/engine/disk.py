"""States of evaluated tokens in files: one file a story, which outlives the program, and sessions.

A file is a row of records. Each has the state of one piece of a path, with its tokens; ``parent`` is the
record in the same file with what comes before. So a file holds a story and its branches, and grows by what
is new. It is bound to one model file, one build of llama.cpp and one kind of cache. What is damaged, cut
short or from elsewhere is cut off, and its tokens are evaluated again. This module knows bytes and token ids,
no cells.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from srbwriter import paths

from .model_files import sample_digest
from .tree import NodeState, common_prefix

log = logging.getLogger(__name__)

SUFFIX = ".kv"
_DIGEST = 32  # letters
_LONGEST_HEADER = 1 << 24
_DAMAGED = "no saved session, or a damaged one"

Bytes = NDArray[np.uint8]


@dataclass(eq=False, slots=True)
class StateRecord:
    """The state of ``tokens`` from position ``start`` on; ``size`` is that of the state in bytes.

    In a file it is a digest, a line of JSON, which it is of, and the state.
    """

    file: StoryFile
    parent: int  # -1 for none
    start: int
    tokens: list[int]
    size: int
    salt: str = ""  # a digest of it
    digest: str = ""  # of the state
    offset: int = 0  # of the state in the file, once it is written

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.offset + self.size


@dataclass(eq=False, slots=True)
class StoryFile:
    """A file and the records in it."""

    path: Path
    records: list[StateRecord] = field(default_factory=list[StateRecord])
    bytes: int = 0


class StoryFiles:
    """The files of one kind of state in ``folder``, at most ``budget`` bytes of them.

    Args:
        key: names model, build and kind of cache; it names the folder of the files too.
    """

    def __init__(self, folder: Path, key: str, budget: int) -> None:
        self.folder, self.key, self.budget = folder / key, key, budget
        self._files: list[StoryFile] = []  # the one written last comes last
        self._writing: Future[None] | None = None
        self._writer = ThreadPoolExecutor(1, "srbwriter-kv")
        with contextlib.suppress(OSError):
            found = [path for path in self.folder.iterdir() if path.suffix == SUFFIX and path.is_file()]
            self._files = [self._open(path) for path in sorted(found, key=lambda p: p.stat().st_mtime)]
        for file in self._files:
            if not file.records:  # as those of older versions
                self._remove(file)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in list(self._files))

    @property
    def busy(self) -> bool:
        """Whether a file is being written."""
        return self._writing is not None and not self._writing.done()

    def read(self, ids: Sequence[int], salt: str, more: int, room: int, whole: bool) -> list[NodeState]:
        """Return the states of the longest beginning of ``ids`` that a file holds, from the first on.

        None where that is ``more`` tokens or less; at most ``room`` bytes. ``whole``: a state is of use only
        if ``ids`` begins with all of its tokens.
        """
        self.flush()
        best, name = None, _digest_salt(salt)
        for file in self._files:
            lengths: list[int] = []  # of the beginning of ids that each record ends with
            for record in file.records:
                fits = record.salt == name and (not record.start or lengths[record.parent] >= record.start)
                length = fits and record.start + common_prefix(record.tokens, ids, record.start, len(ids))
                if whole and length != record.start + len(record.tokens):
                    length = 0
                lengths.append(length or 0)
                if lengths[-1] > more:
                    more, best = lengths[-1], record
        chain: list[StateRecord] = []
        while best is not None:
            chain.append(best)
            best = best.file.records[best.parent] if best.start else None
        states: list[NodeState] = []
        for record in reversed(chain):
            room -= record.size
            data = self._load(record) if room >= 0 else None
            if data is None:
                break
            states.append(NodeState(record.start, record.tokens, data, record))
        if states:
            with contextlib.suppress(OSError):
                os.utime(chain[0].file.path)
        return states

    def write(self, found: Sequence[tuple[str, Sequence[NodeState]]]) -> None:
        """Write the states of paths, from the first on, in the background, as far as no file has them.

        Each path comes with its salt. All of them belong to one story, and so to one file.
        """
        states = {id(state): state for _, path in found for state in path}.values()
        if self.busy or not states or not self.budget:
            return
        files = (state.record.file for state in states if state.record is not None)
        file = next((file for file in files if file in self._files), None)
        if file is None:
            file = StoryFile(self.folder / f"{time.time_ns():x}{SUFFIX}")
        new: list[tuple[StateRecord, Bytes]] = []
        places = {id(record): place for place, record in enumerate(file.records)}
        for salt, path in found:
            parent = -1
            for state in path:
                if id(state.record) not in places:
                    record = StateRecord(
                        file, parent, state.start, [*state.tokens], state.size, _digest_salt(salt)
                    )
                    state.record = record
                    places[id(record)] = len(places)
                    new.append((record, state.data))
                parent = places[id(state.record)]
        if new:
            with contextlib.suppress(RuntimeError):  # the program ends
                self._writing = self._writer.submit(self._append, file, new)

    def flush(self) -> None:
        """Wait until everything has been written, or could not be."""
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Write what waits and end the thread."""
        self._writer.shutdown()

    def clear(self) -> None:
        """Remove every file."""
        self.flush()
        for file in self._files[:]:
            self._remove(file)

    # ---- inside

    def _append(self, file: StoryFile, new: Sequence[tuple[StateRecord, Bytes]]) -> None:
        try:
            paths.make_folder(self.folder)  # states can be read back into words
            with open(file.path, "ab", opener=paths.open_own) as out:
                out.truncate(file.bytes)
                for record, data in new:
                    _write(out, record, self.key, data)
                file.bytes = out.tell()
        except OSError as error:
            log.warning("no states are written to %s any more: %s", self.folder, error)
            self.budget = 0
            self._remove(file)
            return
        file.records += [record for record, _ in new]
        self._files = [other for other in self._files if other is not file] + [file]
        while self.bytes > self.budget:
            self._remove(self._files[0])

    def _open(self, path: Path) -> StoryFile:
        """Return a file with its records, up to the first that is damaged."""
        file = StoryFile(path)
        try:
            with path.open("rb") as source:
                for record in _records(source, file, self.key):
                    if not (record.start == 0 or 0 <= record.parent < len(file.records)):
                        raise ValueError("a record without those before it")
                    file.records.append(record)
                    file.bytes = record.end
        except (OSError, ValueError):
            log.warning("%s is damaged, or another program's", path)
        return file

    def _load(self, record: StateRecord) -> Bytes | None:
        """Return the state of a record; None if it is damaged: the file ends before it then."""
        file = record.file
        with contextlib.suppress(OSError, ValueError), file.path.open("rb") as source:
            return _read_state(source, record)
        log.warning("%s is damaged: its tokens are evaluated again", file.path)
        del file.records[file.records.index(record) :]
        file.bytes = file.records[-1].end if file.records else 0
        if not file.records:
            self._remove(file)  # else it is found again by its tokens, before the new one
        return None

    def _remove(self, file: StoryFile) -> None:
        self._files = [other for other in self._files if other is not file]
        with contextlib.suppress(OSError):
            file.path.unlink()


# ---- sessions


def write_session(path: Path, key: str, ids: Sequence[int], states: Sequence[NodeState]) -> int:
    """Write ``ids`` and the states of their beginning to one file, whole or not at all; return its size.

    Raises OSError.
    """
    file, held = StoryFile(path), min(len(ids), states[-1].end)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb", opener=paths.open_own) as out:
            for place, state in enumerate(states):
                record = StateRecord(file, place - 1, state.start, [*state.tokens], state.size)
                _write(out, record, key, state.data)
            end = StateRecord(file, len(states) - 1, held, [*ids[held:]], 0)  # where the ids end
            _write(out, end, key, np.empty(0, np.uint8))
            size = out.tell()
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return size


def read_session(path: Path, key: str) -> tuple[list[int], list[NodeState]]:
    """Return the token ids of a session and their states; see :func:`write_session`.

    Raises OSError, and ValueError for a file that is damaged or was written with another ``key``.
    """
    ids, states, size = list[int](), list[NodeState](), -1
    with path.open("rb") as source:
        for record in _records(source, StoryFile(path), key):
            size = record.size
            ids = [*ids[: record.start], *record.tokens]
            if size:
                states.append(NodeState(record.start, record.tokens, _read_state(source, record)))
    if size:
        raise ValueError(_DAMAGED)
    return ids, states


def state_key(model: Path, *kind: str) -> str:
    """Return a name for the states of one model file, this build of llama.cpp and a ``kind`` of cache.

    The model file is identified by its size and by samples from all over it; reading all of it takes long.
    """
    from importlib.metadata import version

    return sample_digest(model, f" {version('llama-cpp-python')} {' '.join(kind)}")


# ---- records


def _write(out: BinaryIO, record: StateRecord, key: str, data: Bytes) -> None:
    record.digest = _digest(data.data)
    header = {name: getattr(record, name) for name in ("parent", "start", "tokens", "size", "salt", "digest")}
    line = json.dumps({"key": key, **header}).encode() + b"\n"
    out.write(_digest(line).encode() + line)
    record.offset = out.tell()
    out.write(data.data)


def _records(source: BinaryIO, file: StoryFile, key: str) -> Iterator[StateRecord]:
    """Yield each record; its state is not looked at.

    Raises ValueError for what is no record of this ``key``, or cut short.
    """
    size = os.fstat(source.fileno()).st_size
    while source.tell() < size:
        digest, line = source.read(_DIGEST), source.readline(_LONGEST_HEADER)
        if digest != _digest(line).encode():
            raise ValueError(_DAMAGED)
        header: dict[str, Any] = json.loads(line)
        if header.pop("key") != key:
            raise ValueError("a session of another model, build or kind of cache")
        record = StateRecord(file, **header, offset=source.tell())
        if record.end > size:
            raise ValueError(_DAMAGED)
        yield record
        source.seek(record.end)


def _read_state(source: BinaryIO, record: StateRecord) -> Bytes:
    """Return the state of a record. Raises ValueError if it is damaged."""
    source.seek(record.offset)
    data = source.read(record.size)
    if _digest(data) != record.digest:
        raise ValueError(_DAMAGED)
    return np.frombuffer(data, np.uint8)


def _digest(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST // 2).hexdigest()


def _digest_salt(salt: str) -> str:
    return _digest(salt.encode()) if salt else ""
