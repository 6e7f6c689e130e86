"""The server at the other side: find out what it is, and ask it questions."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx

from ..types import InvalidRequest, RemoteError
from .dialects.base import Dialect, not_found
from .dialects.llamacpp import LlamaCpp
from .dialects.openai import VLLM, OpenAI, SGLang, cards_of
from .dialects.srb import Srb
from .options import RemoteOptions
from .problems import retry_notice, wants_tls
from .profile import Profile
from .transport import Transport

log = logging.getLogger(__name__)

T = TypeVar("T")

_PROBES = 3  # more attempts to find out what the server is, after the first
_ATTEMPTS = 4  # of a question
FIRST_SECONDS = 15.0  # that the first question may take
_UNREADABLE = (httpx.RemoteProtocolError, httpx.ReadError)
"""What comes of speaking plain HTTP where TLS is spoken."""

_BY_NAME: dict[str, type[Dialect]] = {"vllm": VLLM, "openai": OpenAI, "llamacpp": LlamaCpp, "srb": Srb}


class Connection:
    """One server. To be used on one event loop; ``dialect`` and ``profile`` are set by :meth:`identify`."""

    dialect: Dialect
    profile: Profile

    def __init__(self, options: RemoteOptions) -> None:
        self.transport = Transport(options.url, options)
        self.options = options
        self.where = self.transport.where
        self.gate = asyncio.Semaphore(options.max_requests)  # requests for text under way at once

    async def identify(self) -> Profile:
        """Find out what the server is and can do. Gives up after a few attempts. Raises RemoteError."""
        options = self.options
        for attempt in itertools.count(1):
            try:
                self.dialect = await dialect_of(self.transport, options)
                self.profile = await self.dialect.probe()
                break
            except RemoteError as error:
                if isinstance(error.__cause__, _UNREADABLE) and await self.transport.speaks_tls():
                    raise wants_tls(self.where) from error
                wait = options.first_wait * 2 ** (attempt - 1)
                if not error.again or attempt > _PROBES:
                    raise
                if options.notify is not None:
                    options.notify(retry_notice(error, wait, attempt, _PROBES))
                await asyncio.sleep(wait)
        most = self.profile.requests or options.max_requests
        self.gate = asyncio.Semaphore(min(options.max_requests, most))
        return self.profile

    async def ask(self, question: Callable[[Dialect], Awaitable[T]]) -> T:
        """Return the answer to a question; a failed attempt is repeated. Raises RemoteError."""
        for attempt in range(_ATTEMPTS - 1):
            try:
                return await question(self.dialect)
            except RemoteError as error:
                if not error.again:
                    raise
                log.info("asked once more: %s", error)
            await asyncio.sleep(self.options.first_wait * attempt)
        return await question(self.dialect)

    async def close(self) -> None:
        """Close all connections."""
        await self.transport.close()


async def dialect_of(transport: Transport, options: RemoteOptions) -> Dialect:
    """Return the dialect that the options name, or the best that the server speaks.

    Raises RemoteError, and InvalidRequest for an unknown name.
    """
    if options.dialect not in (*_BY_NAME, "auto"):
        raise InvalidRequest("dialect", f"{options.dialect!r} is none of auto, {', '.join(_BY_NAME)}")
    if options.dialect not in ("auto", "vllm"):
        return _BY_NAME[options.dialect](transport, options)
    kind = await _detect(transport)
    if options.dialect == "vllm" and kind is not SGLang:
        kind = VLLM
    return kind(transport, options)


async def _detect(transport: Transport) -> type[Dialect]:
    try:
        cards = cards_of(await transport.ask("GET", "/v1/models", None, FIRST_SECONDS))
    except RemoteError as error:
        if not not_found(error):
            raise
        return OpenAI
    card = cards[0] if cards else {}
    owner = str(card.get("owned_by", "")).lower()
    if owner == "llamacpp":
        return Srb if "engine_state" in card else LlamaCpp
    return {"vllm": VLLM, "sglang": SGLang}.get(owner, OpenAI)
