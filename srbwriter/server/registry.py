"""Requests that can be addressed by name: all that run, and the latest that have ended.

Bounded in number and age. Holds no text of its own; a record points at the engine's generations.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from srbwriter.engine.generation import Branch, Generation

from .errors import ApiError, Dialect


@dataclass(slots=True)
class Record:
    """One request of one client."""

    id: str
    dialect: Dialect
    generations: tuple[Generation, ...]
    slots: list[int] = field(default_factory=list[int])
    created: float = field(default_factory=time.time)
    ended: float | None = None
    picked: int | None = None

    @property
    def generation(self) -> Generation:
        return self.generations[0]

    @property
    def branches(self) -> list[Branch]:
        """All branches, prompt by prompt."""
        return [branch for generation in self.generations for branch in generation.branches]

    @property
    def size(self) -> int:
        """Events it holds in memory."""
        return sum(len(generation.log) for generation in self.generations)

    @property
    def bytes(self) -> int:
        """What it holds in memory, about; log-probabilities are most of that where they were asked for."""
        return sum(map(_bytes, self.generations))

    @property
    def live(self) -> bool:
        return any(not generation.done for generation in self.generations)

    def slot(self, index: int) -> int:
        """The slot number of a branch, -1 if it has none."""
        return self.slots[index] if index < len(self.slots) else -1

    def index(self, branch: Branch) -> int:
        """The number of a branch among all."""
        return self.branches.index(branch)

    def branch(self, index: int) -> Branch:
        """Raises ApiError (404) when there is no such branch."""
        branches = self.branches
        if not 0 <= index < len(branches):
            raise ApiError(404, f"request {self.id} has no branch {index}; it has {len(branches)}")
        return branches[index]


class Registry:
    """Records by id; ``most`` bytes may be held by all that have ended. Used from the server's loop only."""

    def __init__(self, keep: int, seconds: float, most: int = 256 * 2**20) -> None:
        self._keep, self._seconds, self._most = keep, seconds, most
        self._records: dict[str, Record] = {}

    def add(self, dialect: Dialect, generations: Sequence[Generation], id: str | None = None) -> Record:
        """Register under ``id``, or under a new one that nobody can guess."""
        record = Record(id or new_id(), dialect, tuple(generations))
        self._records[record.id] = record
        self.sweep()
        return record

    def get(self, id: str) -> Record:
        """Raises ApiError (404) when the request is unknown or was forgotten."""
        self.sweep()
        record = self._records.get(id)
        if record is None:
            raise ApiError(404, f"there is no request {id}; finished requests are forgotten after a while")
        return record

    def remove(self, record: Record) -> None:
        self._records.pop(record.id, None)

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records.values()))

    def __len__(self) -> int:
        return len(self._records)

    def live(self) -> list[Record]:
        return [record for record in self._records.values() if record.live]

    def sweep(self) -> None:
        """Forget what ended too long ago, and the oldest of what is too much."""
        now = time.time()
        ended: list[Record] = []
        for record in tuple(self._records.values()):
            if record.live:
                record.ended = None
                continue
            record.ended = record.ended or now
            if now - record.ended > self._seconds:
                del self._records[record.id]
            else:
                ended.append(record)
        size = sum(record.bytes for record in ended)
        for number, record in enumerate(ended):
            if len(ended) - number <= self._keep and size <= self._most:
                break
            size -= record.bytes
            del self._records[record.id]


_EVENT, _LOGPROB, _LIKELIEST = 400, 150, 120  # bytes: an event and its text, a logprob, each one beside it


def _bytes(generation: Generation) -> int:
    request = generation.request
    event, known = _EVENT, 0
    if request.logprobs is not None:
        event += _LOGPROB + _LIKELIEST * request.logprobs
    if request.prompt_logprobs is not None:
        known = len(generation.prompt_logprobs) * (_LOGPROB + _LIKELIEST * request.prompt_logprobs)
    return len(generation.log) * event + known


def new_id() -> str:
    return secrets.token_hex(12)
