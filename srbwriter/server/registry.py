"""The register of requests that clients can address by id: all that run, and the latest that ended.

llama.cpp's slots are here too: numbers for branches while they are written. Bounded in number, age and bytes.
Holds no text of its own; a record points at the engine's generations.
"""

from __future__ import annotations

import secrets
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import BranchState, Priority
from srbwriter.server.settings import Client
from srbwriter.server.work import PER_BYTE, PER_ENTRY

from .errors import ApiError


class Scope(NamedTuple):
    """A part of the cache: the salt of its namespace."""

    salt: str = ""


@dataclass(slots=True)
class Record:
    """One request of one client."""

    id: str
    client: str
    generations: tuple[Generation, ...]
    slots: list[int] = field(default_factory=list[int])
    created: float = field(default_factory=time.time)
    ended: float | None = None
    held: int = 0  # bytes, about, when it had ended
    picked: int | None = None
    peer: str = ""  # the address that it came from
    tag: str = ""  # what its client calls it
    bound: bool = True  # to the connection that it came over: that one's end is its own

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
    def prompt_tokens(self) -> int:
        """Tokens of all prompts, each once."""
        return sum(len(generation.prompt_ids) for generation in self.generations)

    @property
    def cached_tokens(self) -> int:
        """How many of these were found in the cache."""
        return sum(generation.cached_tokens for generation in self.generations)

    @property
    def written(self) -> int:
        """Tokens of all branches."""
        return sum(len(branch.buffer.ids) for branch in self.branches)

    @property
    def bytes(self) -> int:
        """Estimate its memory in bytes; log-probabilities are most of it where the request has them."""
        return sum(map(_bytes, self.generations))

    @property
    def effort(self) -> float:
        """Seconds that it takes to write the whole answer, about."""
        entries, tokens = 0, 0
        for generation in self.generations:
            known = generation.request.logprobs
            each = 1 if known is None else 3 + 3 * known
            entries += each * sum(len(branch.buffer.ids) for branch in generation.branches)
            tokens += len(generation.prompt_ids) * len(generation.branches)
            if (before := generation.request.prompt_logprobs) is not None:
                entries += (3 + 3 * before) * len(generation.prompt_ids) * len(generation.branches)
        return entries * PER_ENTRY + tokens * PER_BYTE

    @property
    def live(self) -> bool:
        return any(not generation.done for generation in self.generations)

    @property
    def priority(self) -> Priority:
        """Of all its prompts."""
        return self.generations[0].request.priority

    @property
    def waiting(self) -> bool:
        """Whether it is live, and nothing of it runs yet."""
        live = [branch for branch in self.branches if branch.live]
        return bool(live) and all(branch.state is BranchState.WAITING for branch in live)

    def slot(self, index: int) -> int:
        """The slot number of a branch, -1 if it has none."""
        return self.slots[index] if index < len(self.slots) else -1

    def index(self, branch: Branch) -> int:
        """The number of a branch among all."""
        return self.branches.index(branch)

    def branch(self, index: int) -> Branch:
        """Raise ApiError (404) when there is no such branch."""
        branches = self.branches
        if not 0 <= index < len(branches):
            raise ApiError(404, f"request {self.id} has no branch {index}; it has {len(branches)}")
        return branches[index]


class Registry:
    """Records by id; ``most`` bytes may be held by all that have ended. Used from the server's loop only."""

    def __init__(self, keep: int, seconds: float, most: int = 256 * 2**20) -> None:
        self._keep, self._seconds, self._most = keep, seconds, most
        self._records: dict[str, Record] = {}

    def add(
        self, client: Client, generations: Sequence[Generation], id: str,
        *, tag: str = "", bound: bool = True,
    ) -> Record:  # fmt: skip
        """Register generations under ``id``."""
        record = Record(id, client.name, tuple(generations), peer=client.peer, tag=tag, bound=bound)
        self._records[record.id] = record
        self.sweep()
        return record

    def get(self, id: str, client: Client) -> Record:
        """Raise ApiError (404) when the request is unknown, was forgotten, or is another client's."""
        self.sweep()
        record = self._records.get(id)
        if record is None or not self._sees(client, record):
            raise ApiError(404, f"there is no request {id}; finished requests are forgotten after a while")
        return record

    def of(self, client: Client) -> list[Record]:
        """The requests that a client may see."""
        return [record for record in self._records.values() if self._sees(client, record)]

    def own(self, client: Client, tag: str = "") -> list[Record]:
        """What came over connections of the same key and address, oldest first; ``tag``: by that name only.

        For clients that name no request when they stop or look at one. An admin's key sees no more here.
        """
        return [
            record
            for record in self._records.values()
            if record.bound
            and (record.client, record.peer) == (client.name, client.peer)
            and (not tag or record.tag == tag)
        ]

    def _sees(self, client: Client, record: Record) -> bool:
        return client.admin or client.name == record.client

    def remove(self, record: Record) -> None:
        self._records.pop(record.id, None)

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records.values()))

    def __len__(self) -> int:
        return len(self._records)

    def live(self) -> list[Record]:
        return [record for record in self._records.values() if record.live]

    def place(self, record: Record) -> int:
        """How many requests that came before it wait as well; 0 for one that runs."""
        if not record.waiting:
            return 0
        earlier = (other for other in self._records.values() if other.created < record.created)
        return sum(other.live and other.waiting and other.priority <= record.priority for other in earlier)

    def sweep(self) -> None:
        """Forget requests that ended too long ago, and the oldest beyond the bounds."""
        now = time.time()
        ended: list[Record] = []
        for record in tuple(self._records.values()):
            if record.live:
                record.ended = None
                continue
            if record.ended is None:
                record.ended, record.held = now, record.bytes
            if now - record.ended > self._seconds:
                self.remove(record)
            else:
                ended.append(record)
        size = sum(record.held for record in ended)
        for number, record in enumerate(ended):
            if len(ended) - number <= self._keep and size <= self._most:
                break
            size -= record.held
            self.remove(record)


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


# ---- slots


class Slot:
    """A number for a branch while it is written; keeps nothing alive.

    The engine has no slots. What a branch leaves behind can be pinned in the engine's cache under its number,
    for a client that comes back to it.
    """

    def __init__(self, id: int) -> None:
        self.id = id
        self.client = ""  # whose branch had the number last
        self.pinned: tuple[int, ...] = ()  # token ids
        self._pinned_by = ""
        self.scope = Scope()  # where the cache holds them
        self._branch: weakref.ref[Branch] | None = None

    @property
    def branch(self) -> Branch | None:
        """The latest branch that had the number, as long as its request is kept."""
        return self._branch() if self._branch is not None else None

    @property
    def busy(self) -> bool:
        branch = self.branch
        return branch is not None and branch.live

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens that the slot's latest branch left in the cache."""
        branch = self.branch
        return () if branch is None else (*branch.generation.prompt_ids, *branch.ids)

    @property
    def kept(self) -> tuple[int, ...]:
        """The tokens of the latest branch, or else those that the same client has pinned."""
        return self.ids or (self.pinned if self._pinned_by == self.client else ())

    def give(self, branch: Branch, client: str) -> None:
        if client != self.client:
            self.pinned = ()
        self._branch, self.client = weakref.ref(branch), client
        request = branch.generation.request
        self.scope = Scope(request.cache_salt)

    def pin(self, ids: Sequence[int], client: str) -> None:
        """Keep tokens for a client, for when the branch that left them is forgotten."""
        self.pinned, self._pinned_by = tuple(ids), client

    def restore(self, ids: Sequence[int], client: str, scope: Scope) -> None:
        """Keep tokens that a client had saved, instead of what the latest branch left."""
        self._branch, self.client, self.scope = None, client, scope
        self.pin(ids, client)

    def clear(self) -> None:
        self._branch, self.client, self.pinned, self._pinned_by = None, "", (), ""
        self.scope = Scope()


class Slots:
    """As many as branches may be live. Used from the server's loop only."""

    def __init__(self) -> None:
        self._slots: list[Slot] = []

    def all(self, count: int) -> list[Slot]:
        while len(self._slots) < count:
            self._slots.append(Slot(len(self._slots)))
        return self._slots[:count]

    def assign(self, record: Record, count: int, wanted: int = -1) -> list[int]:
        """Return a slot for every branch of a record: those from ``wanted`` on, or idle ones first."""
        slots = self.all(count)
        order = sorted(slots, key=lambda slot: (slot.busy, slot.branch is not None, slot.id))
        if 0 <= wanted < count:
            order = slots[wanted:] + slots[:wanted]
        numbers: list[int] = []
        for index, branch in enumerate(record.branches):
            slot = order[index % len(order)]
            slot.give(branch, record.client)
            numbers.append(slot.id)
        return numbers
