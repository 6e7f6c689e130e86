"""Run the requests of clients: one way to submit, one to follow what is written, one to cancel (a record's).

The engine wakes the loop at most once per step, and thirty times a second, however many streams there are.
Each follower then reads its generations' logs by index. Nothing is queued for a slow reader: the next read
returns every event published since the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from srbwriter import launch
from srbwriter.engine.backend import Backend
from srbwriter.engine.chat import CHATML
from srbwriter.engine.generation import Generation
from srbwriter.engine.limits import BRANCHES
from srbwriter.engine.types import Event, Request, Text
from srbwriter.version import __version__

from .auth import Client, server_keys
from .errors import ApiError, as_api_error, unavailable
from .prompts import put_before, read_system_prompt, read_template
from .registry import Registry, RequestRecord
from .settings import ServerSettings

T = TypeVar("T")

LARGE = 1 << 16
"""Bytes of a body, or tokens of an answer, from which on they are read or made on a thread."""

_THREADS = ThreadPoolExecutor(4, "srbwriter-work")  # few: each competes with the loop for the interpreter


async def on_thread(work: Callable[[], T]) -> T:
    """Return the result of ``work``, done beside the loop."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


FINGERPRINT = f"b0-srbwriter-{__version__}"
"""This program's build in answers: OpenAI's ``system_fingerprint``, llama.cpp's ``build_info``."""


class Loader(Protocol):
    """Load a backend in the background. ``state`` is INIT, LOADING, READY or FAILED."""

    @property
    def state(self) -> str: ...
    @property
    def engine(self) -> Backend | None: ...
    @property
    def error(self) -> Exception | None: ...


class Loaded:
    """A loader for a backend that is up already."""

    def __init__(self, engine: Backend) -> None:
        self.engine: Backend | None = engine
        self.state = "READY"
        self.error: Exception | None = None


class Services:
    """The engine, requests and limits of one server, which every handler uses. Used from its loop only."""

    def __init__(self, loader: Loader, settings: ServerSettings) -> None:
        self.loader = loader
        self.settings = settings
        self.notifier = Notifier()
        self.registry = Registry()
        keys = {key.name for key in server_keys(settings)}
        self._separate_caches = len(keys) > 1 and not settings.share_cache
        self.system = read_system_prompt(settings)
        self.chat_template = read_template(settings)  # the one to use instead of the model's own
        self.started = time.time()
        self.openapi: dict[str, Any] = {}
        self.tokens_max = 0

    @property
    def engine(self) -> Backend:
        """Raise ApiError (503) while the model is being loaded, or when it could not be."""
        engine = self.loader.engine
        if engine is not None:
            return engine
        if self.loader.error is not None:
            raise unavailable(f"the model could not be loaded: {self.loader.error}", 60)
        raise unavailable("Loading model")

    @property
    def template(self) -> str:
        """The text or name of the template that makes messages a prompt."""
        engine = self.loader.engine
        own = engine.info.chat_template if engine is not None else None
        return self.chat_template or own or CHATML

    @property
    def max_n(self) -> int:
        engine = self.loader.engine
        return self.settings.max_n if engine is None else min(self.settings.max_n, engine.max_branches)

    @property
    def model_name(self) -> str:
        return self.model_names[0]

    @property
    def model_names(self) -> tuple[str, ...]:
        """What the model goes by: the aliases of the settings, or its file's name and that in the file."""
        names, engine = words(self.settings.alias), self.loader.engine
        if not names and engine is not None:
            names = (launch.model_name(engine.info), engine.info.name)
        return tuple(dict.fromkeys(filter(None, names))) or (getattr(self.loader, "name", "") or "model",)

    def busy_branches(self) -> int:
        """Branches that are written or wait, of every dialect and of the terminal; ``max_n`` at most."""
        ours = sum(branch.live for record in self.registry.live() for branch in record.branches)
        return min(self.max_n, max(ours, self.engine.stats().live_branches))

    def end(self) -> None:
        """End what runs, in words: the time that a server gives its answers is up."""
        for record in self.registry.live():
            record.broken_off = unavailable("the server is being ended")
            record.cancel()

    # ---- a request

    async def submit(
        self, requests: Sequence[Request], client: Client, id: str, *, tag: str = "", busy: int = 503,
        large: bool = False,
    ) -> RequestRecord:  # fmt: skip
        """Submit a client's requests to the engine as one record: all of them or none.

        Their cache is for this client alone where keys do not share it. ``large`` ones are read on a thread.
        Raises ApiError: 400 for a request that the engine refuses, ``busy`` with Retry-After when too much
        runs.
        """
        engine, most = self.engine, self.settings.max_requests
        branches = sum(request.n for request in requests)
        if branches > BRANCHES:
            count = f"{len(requests)} prompts have {branches} branches"
            problem = f"Fields 'prompt' and 'n': {count}, {BRANCHES} are possible, of all together"
            raise ApiError(400, problem, field="n")
        if len(requests) > most:  # they would not fit the idlest server
            raise ApiError(400, f"{len(requests)} prompts in one request, {most} are possible")
        running = sum(len(record.generations) for record in self.registry.live())
        if running + len(requests) > most:
            problem = f"{running} requests are being answered, the limit is {most}"
            raise ApiError(busy, problem, headers={"Retry-After": "1"})
        generations: list[Generation] = []

        def work() -> None:
            for request in requests:
                salt = self.salt(client, request.cache_salt)
                generations.append(
                    engine.submit(replace(request, cache_salt=salt, client=client.name, label=id))
                )

        try:  # a constraint is compiled, which may take half a second
            await on_thread(work) if large or any(map(_is_constrained, requests)) else work()
        except Exception as error:
            for generation in generations:
                generation.cancel()
            raise as_api_error(error) from error
        self.tokens_max = max(self.tokens_max, *(len(g.prompt_ids) for g in generations))
        record = RequestRecord(id, client.name, tuple(generations), peer=client.peer, tag=tag)
        self.registry.add(record, self.max_n)
        return record

    def salt(self, client: Client, asked: str = "") -> str:
        """Return the salt of a client's part of the cache, with that which a request asks for.

        The number of cached tokens, and how soon an answer comes, would reveal what other clients have
        written. So each key has its own part. A salt that has the client's prefix stays as it is.
        """
        own = f"{client.name}\0" if self._separate_caches else ""
        return asked if asked.startswith(own) else own + asked

    def put_system_before(self, request: Request) -> Request:
        """Return the request with the system prompt before its own, where it stays when that is cut."""
        return put_before(request, self.system, self.engine)

    async def finish(self, record: RequestRecord) -> None:
        """Wait until a record has ended. A caller that stops waiting cancels it."""
        try:
            with Follower(self.notifier, record.generations) as follower:
                async for _ in follower.batches():
                    pass
        finally:
            record.cancel()


def _is_constrained(request: Request) -> bool:
    sampling = request.sampling[0] if isinstance(request.sampling, tuple) else request.sampling
    return bool(sampling.grammar or sampling.json_schema or sampling.regex)


def words(text: str | None) -> tuple[str, ...]:
    """Return the comma-separated entries of a setting, without empty ones."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


# ---- following what is written

News = Sequence[tuple[int, Event]]
"""Events, each with the number of its generation; generations are numbered by prompt."""

_MOST = 1000  # events; writing as many frames takes some milliseconds

TICK_SECONDS = 1 / 30
"""Seconds between two wakings while tokens come faster: no eye tells them apart, and each waking takes a
core from a step (8.5 M, two cores, n = 1: 375 tokens/s at 0.01, 398 here, 412 at 0.1, 425 without HTTP)."""


class Notifier:
    """Wake one event loop from the engine's thread when there are new events."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._dirty: set[asyncio.Event] = set()
        self._tick: asyncio.TimerHandle | None = None  # the next waking, if there was one just now

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def listener(self, event: asyncio.Event, urgent: Callable[[], bool]) -> Callable[[], None]:
        """Return a listener that sets ``event`` on the loop: at the next tick, or at once if ``urgent``.

        Only the first call of a step wakes the loop.
        """
        loop = self._loop
        assert loop is not None, "the bridge is attached when the application starts"

        def listen() -> None:
            with self._lock:
                first = not self._dirty and self._tick is None
                self._dirty.add(event)
            if first or urgent():
                # The loop may have closed with the server while the engine goes on for others.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._flush)

        return listen

    def _flush(self) -> None:
        assert self._loop is not None
        with self._lock:
            dirty, self._dirty = self._dirty, set()
            if self._tick is not None:
                self._tick.cancel()
            self._tick = self._loop.call_later(TICK_SECONDS, self._flush) if dirty else None
        for event in dirty:
            event.set()


class Follower:
    """Read the events of several generations until all have ended. Use as a context manager."""

    def __init__(self, notifier: Notifier, generations: Sequence[Generation]) -> None:
        self.generations = tuple(generations)
        self._news = asyncio.Event()
        self._positions = [0] * len(self.generations)
        self._writing = False  # whether text has been read
        listen = notifier.listener(self._news, self._is_urgent)
        self._removals = [generation.add_listener(listen) for generation in self.generations]

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        for remove in self._removals:
            remove()

    def _is_urgent(self) -> bool:
        """Whether there is text, or all branches have ended."""
        return not self._writing or all(generation.done for generation in self.generations)

    def _take(self) -> list[tuple[int, Event]]:
        """Return unread events, each with the number of its generation; at most 1000 of one generation."""
        news: list[tuple[int, Event]] = []
        for number, generation in enumerate(self.generations):
            log, start = generation.log, self._positions[number]
            end = min(len(log), start + _MOST)
            if end > start:
                news.extend((number, event) for event in log[start:end])
                self._positions[number] = end
        self._writing = self._writing or any(isinstance(event, Text) for _, event in news)
        return news

    async def batches(self, idle: float | None = None) -> AsyncIterator[list[tuple[int, Event]]]:
        """Yield events as they are published; an empty list after ``idle`` seconds without one."""
        while True:
            self._news.clear()
            done = all(generation.done for generation in self.generations)
            news = self._take()
            if news:
                yield news
            elif done:
                return
            else:
                try:
                    async with asyncio.timeout(idle):
                        await self._news.wait()
                except TimeoutError:
                    yield []
