"""Several addresses of one model: who is there, who is asked next, and who is left out for a while."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import httpx

from ..types import RemoteError
from .dialects.base import Dialect, not_found
from .dialects.koboldcpp import KoboldCpp
from .dialects.llamacpp import LlamaCpp
from .dialects.openai import VLLM, OpenAI, SGLang, cards_of
from .dialects.srb import Srb
from .options import RemoteOptions
from .problems import retry_notice, wants_tls
from .profile import Profile
from .transport import Transport

log = logging.getLogger(__name__)

_BLOCK = 64  # tokens of a prefix that are remembered together
_KEPT = 16_384  # such blocks
_AHEAD = 4  # requests that an address may have more than the idlest and still keep its prefixes
_LONGEST_OUT = 30.0  # seconds
_LOOK_SECONDS, _LOOKS_APART = 3.0, 1.0  # a look at whether somebody is there may take, and holds for
_PROBES = 3  # more attempts to find out who is there, after the first
FIRST_SECONDS = 15.0  # that the first question may take
_UNREADABLE = (httpx.RemoteProtocolError, httpx.ReadError)
"""What comes of speaking plain HTTP where TLS is spoken."""


_BY_NAME: dict[str, type[Dialect]] = {
    "vllm": VLLM, "openai": OpenAI, "llamacpp": LlamaCpp, "srb": Srb, "koboldcpp": KoboldCpp
}  # fmt: skip


class Look(NamedTuple):
    """What came of asking how a server fares.

    ``trouble`` is "" if it answered; ``certain`` where it will write nothing more, and is not only busy.
    """

    trouble: str
    certain: bool


class Peer:
    """One address."""

    def __init__(self, url: str, options: RemoteOptions) -> None:
        self.transport = Transport(url, options)
        self._options = options
        self.where = self.transport.where
        self.dialect: Dialect | None = None
        self.profile: Profile | None = None
        self.load = 0  # requests under way or waiting here
        self.gate = asyncio.Semaphore(options.max_requests)
        self.out_until = 0.0  # time.monotonic() before which it is not asked, while others can be
        self.trouble = ""
        self._failures = 0
        self._probing = asyncio.Lock()

    async def known(self) -> tuple[Dialect, Profile]:
        """Who is there; asked once. Raises RemoteError."""
        async with self._probing:
            if self.dialect is None or self.profile is None:
                self.dialect, self.profile = await self._probe()
                self.gate = asyncio.Semaphore(
                    min(self._options.max_requests, self.profile.requests or self._options.max_requests)
                )
            return self.dialect, self.profile

    async def _probe(self) -> tuple[Dialect, Profile]:
        """Find out who is there. Gives up after a few attempts, or when no time is left for another one."""
        options, start = self._options, time.monotonic()
        for attempt in itertools.count(1):
            try:
                dialect = await dialect_of(self.transport, options)
                return dialect, await dialect.probe()
            except RemoteError as error:
                if isinstance(error.__cause__, _UNREADABLE) and await self.transport.speaks_tls():
                    raise wants_tls(self.where) from error
                wait = options.first_wait * 2 ** (attempt - 1)
                late = time.monotonic() - start + wait + FIRST_SECONDS > options.patience
                if not error.again or attempt > _PROBES or late:
                    raise
                if options.notify is not None:
                    options.notify(retry_notice(error, wait, attempt, _PROBES))
                await asyncio.sleep(wait)
        raise AssertionError

    async def trouble_now(self) -> str:
        """Why it could write nothing at this moment, in words; nothing if it could.

        Any answer is a sign of life: not every kind of server has that path.
        """
        error = await self._look()
        return "" if error is None else error.problem

    async def look_in(self) -> Look:
        """Ask how it fares, where nothing comes for long."""
        error = await self._look(min(_LOOK_SECONDS, self._options.quiet_seconds))
        if error is None:
            return Look("", certain=False)
        refused = isinstance(error.__cause__, httpx.ConnectError)
        return Look(error.problem, certain=bool(error.status) or refused)

    async def _look(self, seconds: float = _LOOK_SECONDS) -> RemoteError | None:
        try:
            await asyncio.wait_for(self.transport.read("GET", "/health", None, seconds), seconds)
        except RemoteError as error:
            return error if error.status in (0, 502, 503, 504) else None
        except TimeoutError:
            return RemoteError(self.where, "it does not answer")
        return None

    def failed(self, error: RemoteError) -> None:
        """Leave it out for a while, each time for longer."""
        self._failures += 1
        self.trouble = error.problem
        self.out_until = time.monotonic() + max(error.wait, min(2.0 ** (self._failures - 2), _LONGEST_OUT))

    def answered(self) -> None:
        """It works."""
        self._failures, self.out_until, self.trouble = 0, 0.0, ""


class Pool:
    """The addresses. To be used on one event loop."""

    def __init__(self, options: RemoteOptions) -> None:
        self.peers = [Peer(url, options) for url in options.urls]
        self._homes: OrderedDict[int, Peer] = OrderedDict()
        self._looking = asyncio.Lock()
        self._seen, self._look_again = "", 0.0

    async def connect(self) -> Profile:
        """Ask all who they are; the profile of the first that answers.

        Raises RemoteError if none does, or if two of them have different models.
        """
        found = await asyncio.gather(*(peer.known() for peer in self.peers), return_exceptions=True)
        known = [
            (peer, each[1]) for peer, each in zip(self.peers, found, strict=True) if isinstance(each, tuple)
        ]
        for peer, each in zip(self.peers, found, strict=True):
            if isinstance(each, RemoteError):
                peer.failed(each)
                log.warning("%s", each)
            elif isinstance(each, BaseException):
                raise each
        if not known:
            errors = [each for each in found if isinstance(each, RemoteError)]
            raise errors[0]
        first = known[0][1]
        for peer, profile in known[1:]:
            self.check(peer, profile, first)
        return first

    @staticmethod
    def check(peer: Peer, profile: Profile, first: Profile) -> None:
        """Raises RemoteError where ``peer`` is not another address of the same model."""
        if (profile.info.vocab, profile.ids) != (first.info.vocab, first.ids):
            raise RemoteError(
                peer.where,
                f"it serves another model ({profile.info.name}, not {first.info.name})",
                again=False,
            )

    def choose(self, ids: Sequence[int]) -> Peer:
        """Who has most of a prompt, if it is not much busier than the idlest; of several, the idlest."""
        now = time.monotonic()
        alive = [peer for peer in self.peers if peer.out_until <= now]
        candidates = alive or [min(self.peers, key=lambda peer: peer.out_until)]
        idlest = min(candidates, key=lambda peer: peer.load)
        blocks = _blocks(ids) if len(self.peers) > 1 else []
        home = next((self._homes[block] for block in reversed(blocks) if block in self._homes), idlest)
        chosen = home if home in candidates and home.load <= idlest.load + _AHEAD else idlest
        for block in blocks:
            self._homes[block] = chosen
            self._homes.move_to_end(block)
        while len(self._homes) > _KEPT:
            self._homes.popitem(last=False)
        return chosen

    async def trouble_now(self) -> str:
        """Why none of them could write anything at this moment; nothing if one could."""
        async with self._looking:
            if time.monotonic() >= self._look_again:
                found = await asyncio.gather(*(peer.trouble_now() for peer in self.peers))
                self._seen = "" if "" in found else found[0]
                self._look_again = time.monotonic() + _LOOKS_APART
            return self._seen

    async def close(self) -> None:
        await asyncio.gather(*(peer.transport.close() for peer in self.peers), return_exceptions=True)


def _blocks(ids: Sequence[int]) -> list[int]:
    """A number for each beginning of ``ids`` that is whole blocks long."""
    found: list[int] = []
    before = 0
    for start in range(0, len(ids) - _BLOCK + 1, _BLOCK):
        before = hash((before, *ids[start : start + _BLOCK]))
        found.append(before)
    return found


async def dialect_of(transport: Transport, options: RemoteOptions) -> Dialect:
    """The dialect that the options name, or the best that the server speaks. Raises RemoteError."""
    if options.dialect not in ("auto", "vllm"):
        return _BY_NAME[options.dialect](transport, options)
    kind = await _found(transport)
    if options.dialect == "vllm" and kind is not SGLang:
        kind = VLLM
    return kind(transport, options)


async def _found(transport: Transport) -> type[Dialect]:
    try:
        cards = cards_of(await transport.ask("GET", "/v1/models", None, FIRST_SECONDS))
    except RemoteError as error:
        if not not_found(error):
            raise
        return KoboldCpp if await _answers(transport, "/api/extra/version") else OpenAI
    card = cards[0] if cards else {}
    owner = str(card.get("owned_by", "")).lower()
    if owner == "llamacpp":
        return Srb if "engine_state" in card else LlamaCpp
    if owner == "koboldcpp" or str(card.get("id", "")).startswith("koboldcpp/"):
        return KoboldCpp
    return {"vllm": VLLM, "sglang": SGLang}.get(owner, OpenAI)


async def _answers(transport: Transport, path: str) -> bool:
    try:
        await transport.ask("GET", path)
    except RemoteError as error:
        if error.again and not not_found(error):
            raise
        return False
    return True
