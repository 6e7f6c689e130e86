"""The register of requests: all that run, and the latest of each client for those that ask for it by no id.

llama.cpp's slots are here too: numbers for branches while they are written. Holds no text of its own; a
record points at the engine's generations. Used from the server's loop only.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from srbwriter.engine.generation import Branch, Generation

from .auth import Client
from .errors import ApiError

_ENDED = 64  # ended requests that are kept


@dataclass(slots=True)
class RequestRecord:
    """One request of one client."""

    id: str
    client: str
    generations: tuple[Generation, ...]
    slots: list[int] = field(default_factory=list[int])  # a number for each branch
    peer: str = ""  # the address that it came from
    tag: str = ""  # what its client calls it
    broken_off: ApiError | None = None

    @property
    def generation(self) -> Generation:
        return self.generations[0]

    @property
    def branches(self) -> list[Branch]:
        """All branches, prompt by prompt."""
        return [branch for generation in self.generations for branch in generation.branches]

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
        return sum(len(branch.ids) for branch in self.branches)

    @property
    def size(self) -> int:
        """Numbers that it holds in memory, about: an event, and the log-probabilities of its tokens."""
        return sum(
            len(generation.log) * (4 + 2 * (generation.request.logprobs or 0))
            + len(generation.prompt_logprobs) * (2 + 2 * (generation.request.prompt_logprobs or 0))
            for generation in self.generations
        )

    @property
    def live(self) -> bool:
        return any(not generation.done for generation in self.generations)

    @property
    def error(self) -> Exception | None:
        """Why it was broken off, or the error of the first generation that failed."""
        return self.broken_off or next((one.error for one in self.generations if one.error is not None), None)

    def belongs_to(self, client: Client) -> bool:
        """Whether a client may see, steer and cancel it."""
        return client.admin or client.name == self.client

    def cancel(self) -> None:
        """Cancel what has not ended. The text stays."""
        for generation in self.generations:
            if not generation.done:
                generation.cancel()


class Registry:
    """Records by id."""

    def __init__(self) -> None:
        self._records: dict[str, RequestRecord] = {}

    def add(self, record: RequestRecord, slots: int) -> None:
        """Enter a record, whose branches get the free ones of so many ``slots`` first.

        Of those that have ended the latest of each client and tag are kept.
        """
        busy = self.busy_slots()
        order = sorted(range(slots), key=lambda number: number in busy)
        record.slots = [order[index % slots] for index in range(len(record.branches))]
        owner = (record.client, record.peer, record.tag)
        ended = [one for one in self._records.values() if not one.live]
        for number, one in enumerate(ended, _ENDED - len(ended)):
            if number < 0 or (one.client, one.peer, one.tag) == owner:
                del self._records[one.id]
        self._records[record.id] = record

    def get(self, id: str, client: Client) -> RequestRecord:
        """Raise ApiError (404) when the request is unknown, has ended, or is another client's."""
        record = self._records.get(id)
        if record is None or not record.live or not record.belongs_to(client):
            raise ApiError(404, f"there is no request {id} that is being written")
        return record

    def own(self, client: Client, tag: str = "") -> list[RequestRecord]:
        """Return what came over connections of the same key and address, oldest first.

        With ``tag`` by that name only. For clients that name no request when they stop or look at one; an
        admin's key sees no more here.
        """
        mine = [one for one in self._records.values() if one.client == client.name]
        return [one for one in mine if one.peer == client.peer and (not tag or one.tag == tag)]

    def live(self) -> list[RequestRecord]:
        return [record for record in self._records.values() if record.live]

    def busy_slots(self) -> dict[int, Branch]:
        """Return the slots that are taken, each with the branch that is written in it."""
        pairs = (pair for record in self.live() for pair in zip(record.slots, record.branches, strict=True))
        return {number: branch for number, branch in pairs if branch.live}


def new_id() -> str:
    return secrets.token_hex(12)
