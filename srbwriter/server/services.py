"""The objects that every handler uses: the engine behind its loader, the register of requests, the limits."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, Self, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.chat import CHATML
from srbwriter.engine.generation import Generation
from srbwriter.engine.limits import BRANCHES, check_prompt
from srbwriter.engine.types import ContextOverflow, Request, TokenRun
from srbwriter.server.models import Loader, Models, ModelSpec
from srbwriter.server.settings import Client, ServerSettings
from srbwriter.server.streams import Notifier
from srbwriter.version import __version__

from .errors import ApiError, bad, from_engine, unavailable
from .registry import Record, Registry, Slots
from .sharing import Scope, Sharing, template_heads
from .system_prompt import SystemPrompt, put_before, read_system_prompt
from .work import MOST_SECONDS, PER_BYTE, off_loop


def _make_fingerprint() -> str:
    """Return the build in llama.cpp's form: its number and a part of its hash."""
    numbers = [int(part) for part in re.findall(r"\d+", __version__)[:3]]
    build = sum(number * 100**place for place, number in enumerate(reversed(numbers)))
    return f"b{build}-{hashlib.sha256(f'srbwriter {__version__}'.encode()).hexdigest()[:8]}"


FINGERPRINT = _make_fingerprint()
"""This program's build in answers: OpenAI's ``system_fingerprint``, llama.cpp's ``build_info``."""


class Loaded:
    """A loader for a backend that is up already."""

    def __init__(self, engine: Backend) -> None:
        self.engine: Backend | None = engine
        self.state = "READY"
        self.error: Exception | None = None


class Services:
    """One per model of a server; all of a server share their register and limits. Used from its loop only.

    ``offers`` are its models where it has several, the first among them.
    """

    def __init__(
        self, loader: Loader, settings: ServerSettings, notifier: Notifier, offers: Sequence[ModelSpec] = ()
    ) -> None:
        self.loader = loader
        self.settings = settings
        self.notifier = notifier
        self.registry = Registry(settings.keep_requests, settings.keep_seconds)
        self.slots = Slots()
        self.sharing = Sharing(settings)
        self.preloaded = ""  # what conversations in lines begin with
        self._heads: tuple[tuple[str, str], tuple[str, ...]] | None = None  # of a template and system prompt
        self.sockets = Counter[str]()  # WebSockets that are open, by client
        self.system = read_system_prompt(settings)
        self.chat_template: str | None = None  # the one to use instead of the model's own
        self.started = time.time()
        self.openapi: dict[str, Any] = {}
        self.tokens_max = 0
        self.name, self.number = "", 0  # of the model, among several
        self.models: Models[Services] = Models(self, offers, settings.models_max)

    def beside(self, loader: Loader, name: str, number: int) -> Self:
        """The services of another model on the same server."""
        other = copy(self)
        other.name, other.number = name, number
        other.renew(loader)
        return other

    def renew(self, loader: Loader) -> None:
        """Replace the loader, and forget everything about the previous engine."""
        self.loader, self.slots, self.tokens_max, self._heads = loader, Slots(), 0, None

    def change_system_prompt(self, system: SystemPrompt) -> None:
        """Put another text before every prompt of all models from now on."""
        for one in self.models:
            one.services.system = system

    def put_system_before(self, request: Request) -> Request:
        """Return the request with the system prompt before its own, if there is one."""
        return put_before(request, self.system.prompt, self.engine)

    def live(self) -> list[Record]:
        """The requests of this model that are being answered."""
        return [record for record in self.registry.live() if record.model == self.number]

    @property
    def engine(self) -> Backend:
        """Raise ApiError (503) while the model is being loaded, or when it could not be."""
        engine = self.loader.engine
        if engine is not None:
            return engine
        if self.loader.error is not None:
            raise unavailable(f"the model could not be loaded: {self.loader.error}", 60)
        if self.state == "INIT" and not self.models.alone:
            raise unavailable(f"{self.model_name} is not loaded; a request for its words loads it", 1)
        raise unavailable("Loading model", 1)

    @property
    def asking(self) -> float:
        """Seconds that a look at words may take: an engine elsewhere has to be asked, and may not answer."""
        engine = self.loader.engine
        return math.inf if engine is not None and engine.capabilities.remote else 0.0

    @property
    def protected(self) -> bool:
        """Whether a key is needed."""
        return bool(self.settings.api_keys or self.settings.admin_keys)

    @property
    def max_n(self) -> int:
        engine = self.loader.engine
        return self.settings.max_n if engine is None else min(self.settings.max_n, engine.max_branches)

    @property
    def model_name(self) -> str:
        return self.model_names[0]

    @property
    def model_names(self) -> tuple[str, ...]:
        """What the model goes by; while it is being loaded already, if its file says so."""
        told = words(self.settings.alias) if self.number == 0 else ()
        told = told or ((self.name,) if self.name else ())
        engine = self.loader.engine
        if told or engine is not None:
            return told or (cast("Backend", engine).info.name,)
        return (getattr(self.loader, "name", "") or "model",)

    @property
    def state(self) -> str:
        """The loader's state, or RUNNING while requests are answered."""
        state = self.loader.state
        name = str(getattr(state, "name", state)).upper()
        return "RUNNING" if name == "READY" and self.live() else name

    async def submit(
        self, requests: Sequence[Request], client: Client, id: str, slot: int = -1,
        *, tag: str = "", bound: bool = True, common: bool = False, busy: int = 503,
    ) -> Record:  # fmt: skip
        """Submit a client's requests to the engine as one record: all of them or none.

        Its branches get slots, from ``slot`` on if given. Their cache is for this client alone where keys do
        not share it, unless ``common`` says that the prompt is the server's own. Raises ApiError: 400 for a
        request that the engine refuses, ``busy`` with Retry-After when too much runs.
        """
        engine = self.engine
        _check_branches(requests)
        self._admit(len(requests), busy)
        generations: list[Generation] = []

        def work() -> None:
            for request in requests:
                _check_length(request, engine.n_ctx)
                scope = Scope() if common else self.scope(client, request.cache_salt)
                own = replace(
                    request, cache_salt=scope.salt, common=scope.common, client=client.name, label=id
                )
                generations.append(engine.submit(own))

        seconds = self.asking + sum(map(_seconds, requests))
        if self._heads is None and any(self.sharing.salt(client, one.cache_salt) for one in requests):
            seconds += 2 * MOST_SECONDS  # a template came with the model's file: it runs on a thread
        try:
            await off_loop(seconds, work)
        except Exception as error:
            for generation in generations:
                generation.cancel()
            raise from_engine(error) from error
        self.tokens_max = max(self.tokens_max, *(len(g.prompt_ids) for g in generations))
        record = self.registry.add(client, generations, id, tag=tag, bound=bound)
        record.model = self.number
        record.slots = self.slots.assign(record, self.max_n, slot)
        return record

    def scope(self, client: Client, asked: str = "") -> Scope:
        """Return the part of the cache for a client's requests, with the salt that they ask for."""
        salt = self.sharing.salt(client, asked)
        if not salt:
            return Scope()
        template = self.chat_template or self.engine.info.chat_template or CHATML
        known, asked_for = self._heads, (template, self.system.prompt)
        if known is None or known[0] != asked_for:
            known = self._heads = asked_for, template_heads(self.engine, *asked_for)
        return Scope(salt, tuple(filter(None, (self.system.prompt, self.preloaded, *known[1]))))

    @contextmanager
    def open_socket(self, client: Client) -> Generator[bool]:
        """Counts a WebSocket while it is open; False where there is no room for another."""
        settings = self.settings
        fits = self.sockets.total() < settings.max_sockets
        if not (fits and self.sockets[client.name] < settings.max_own_sockets):
            yield False
            return
        self.sockets[client.name] += 1
        try:
            yield True
        finally:
            self.sockets[client.name] -= 1
            self.sockets += Counter[str]()  # forgets those that have none

    def busy(self) -> int:
        """Branches that are written or wait, of every dialect and of the terminal; ``max_n`` at most."""
        ours = sum(branch.live for record in self.live() for branch in record.branches)
        return min(self.max_n, max(ours, self.engine.stats().live_branches))

    async def tokenize(self, text: str, *, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        engine = self.engine
        check_prompt("content", len(text))
        return await off_loop(
            self.asking + len(text) * PER_BYTE,
            lambda: engine.tokenize(text, add_bos=add_bos, parse_special=parse_special),
        )

    def _admit(self, more: int, busy: int) -> None:
        most = self.settings.max_requests
        if more > most:  # it would not fit the idlest server
            raise bad(None, f"{more} prompts or sets of adapters in one request, {most} are possible")
        running = sum(len(record.generations) for record in self.registry.live())
        if running + more <= most:
            return
        raise ApiError(
            busy,
            f"{running} requests are being answered, the limit is {most}",
            headers={"Retry-After": "1"},
        )


def _check_branches(requests: Sequence[Request]) -> None:
    """Refuse more branches of all prompts together than one request may have. Raises ApiError (400)."""
    branches = sum(request.n for request in requests)
    if branches > BRANCHES:
        count = f"{len(requests)} prompts have {branches} branches"
        raise bad("n", f"Fields 'prompt' and 'n': {count}, {BRANCHES} are possible, of all together")


def _check_length(request: Request, window: int) -> None:
    """Refuse a list of ids longer than the window before it is copied. Raises ContextOverflow."""
    prompt = request.prompt
    ids = not isinstance(prompt, str) and bool(prompt) and isinstance(prompt[0], int)
    if ids and len(prompt) > window and request.overflow == "error" and request.context is None:
        raise ContextOverflow(len(prompt), window)


def words(text: str | None) -> tuple[str, ...]:
    """Return the comma-separated entries of a setting, without empty ones."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _seconds(request: Request) -> float:
    """How long the engine looks at a request before it takes it, about."""
    prompt, sampling = request.prompt, request.sampling
    first = sampling[0] if isinstance(sampling, tuple) else sampling
    constraint = len(first.grammar or first.json_schema or first.regex or "")
    runs = [run for run in prompt[:_FEW] if isinstance(run, TokenRun)]  # a prompt is runs or ids, not both
    size = len(prompt) + sum(len(run.text) + len(run.ids or ()) for run in runs)
    return (size + constraint * 8) * PER_BYTE


_FEW = 64
