"""The objects of one server that every handler uses: engine, requests, limits."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.chat import CHATML
from srbwriter.engine.generation import Generation
from srbwriter.engine.limits import BRANCHES, check_prompt
from srbwriter.engine.types import ContextOverflow, Request, TokenRun
from srbwriter.server.settings import Client, ServerSettings, server_keys
from srbwriter.server.streams import Notifier
from srbwriter.version import __version__

from .errors import ApiError, bad, from_engine, unavailable
from .registry import Record, Registry, Scope, Slots
from .system_prompt import SystemPrompt, read_system_prompt
from .work import PER_BYTE, off_loop

_LOOK = 0.02  # seconds between looks at a load, or at requests that are to end


def _make_fingerprint() -> str:
    """Return the build in llama.cpp's form: its number and a part of its hash."""
    numbers = [int(part) for part in re.findall(r"\d+", __version__)[:3]]
    build = sum(number * 100**place for place, number in enumerate(reversed(numbers)))
    return f"b{build}-{hashlib.sha256(f'srbwriter {__version__}'.encode()).hexdigest()[:8]}"


FINGERPRINT = _make_fingerprint()
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
    """One per server. Used from its loop only."""

    def __init__(self, loader: Loader, settings: ServerSettings, notifier: Notifier) -> None:
        self.loader = loader
        self.settings = settings
        self.notifier = notifier
        self.registry = Registry(settings.keep_requests, settings.keep_seconds)
        self.slots = Slots()
        keys = {key.name for key in server_keys(settings)}
        self._separate_caches = len(keys) > 1 and not settings.share_cache
        self.sockets = Counter[str]()  # WebSockets that are open, by client
        self.system = read_system_prompt(settings)
        self.chat_template: str | None = None  # the one to use instead of the model's own
        self.started = time.time()
        self.openapi: dict[str, Any] = {}
        self.tokens_max = 0

    def put_system_before(self, request: Request, system: SystemPrompt | None = None) -> Request:
        """Return the request with the system prompt before its own, where it stays when that is cut."""
        text, engine = (system or self.system).prompt, self.engine
        if not text:
            return request
        prompt, begins, keep = request.prompt, request.add_bos, request.n_keep
        if isinstance(prompt, str):
            runs = (TokenRun(prompt),) if prompt else ()
        elif not prompt or isinstance(prompt[0], TokenRun):
            runs = tuple(cast("Sequence[TokenRun]", prompt))
        else:
            ids = tuple(cast("Sequence[int]", prompt))
            ids = ids[1:] if ids[0] == engine.bos else ids  # it begins with the text now
            runs, begins = ((TokenRun(engine.detokenize(ids), ids),) if ids else ()), True
        if keep >= 0 and (request.overflow != "error" or request.context is not None):
            keep += len(engine.tokenize(text, add_bos=begins))
        return replace(request, prompt=(TokenRun(text), *runs), add_bos=begins, n_keep=keep)

    @property
    def engine(self) -> Backend:
        """Raise ApiError (503) while the model is being loaded, or when it could not be."""
        engine = self.loader.engine
        if engine is not None:
            return engine
        if self.loader.error is not None:
            raise unavailable(f"the model could not be loaded: {self.loader.error}", 60)
        raise unavailable("Loading model", 1)

    @property
    def template(self) -> str:
        """The text or name of the template that makes messages a prompt."""
        engine = self.loader.engine
        own = engine.info.chat_template if engine is not None else None
        return self.chat_template or own or CHATML

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
        names = words(self.settings.alias)
        engine = self.loader.engine
        if names or engine is not None:
            return names or (cast("Backend", engine).info.name,)
        return (getattr(self.loader, "name", "") or "model",)

    @property
    def load_state(self) -> str:
        """The loader's state: INIT, LOADING, READY or FAILED."""
        state = self.loader.state
        return str(getattr(state, "name", state)).upper()

    @property
    def state(self) -> str:
        """The loader's state, or RUNNING while requests are answered."""
        return "RUNNING" if self.load_state == "READY" and self.registry.live() else self.load_state

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
                own = replace(request, cache_salt=scope.salt, client=client.name, label=id)
                generations.append(engine.submit(own))

        seconds = sum(map(_seconds, requests))
        try:
            await off_loop(seconds, work)
        except Exception as error:
            for generation in generations:
                generation.cancel()
            raise from_engine(error) from error
        self.tokens_max = max(self.tokens_max, *(len(g.prompt_ids) for g in generations))
        record = self.registry.add(client, generations, id, tag=tag, bound=bound)
        record.slots = self.slots.assign(record, self.max_n, slot)
        return record

    def scope(self, client: Client, asked: str = "") -> Scope:
        """Return the part of the cache for a client's requests, with the salt that they ask for.

        The number of cached tokens, and how soon an answer comes, would reveal what other clients have
        written. So each key has its own namespace. A salt that has the client's prefix stays as it is.
        """
        own = f"{client.name}\0" if self._separate_caches else ""
        return Scope(asked if asked.startswith(own) else own + asked)

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

    def busy_branches(self) -> int:
        """Branches that are written or wait, of every dialect and of the terminal; ``max_n`` at most."""
        ours = sum(branch.live for record in self.registry.live() for branch in record.branches)
        return min(self.max_n, max(ours, self.engine.stats().live_branches))

    async def tokenize(self, text: str, *, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        engine = self.engine
        check_prompt("content", len(text))
        return await off_loop(
            len(text) * PER_BYTE,
            lambda: engine.tokenize(text, add_bos=add_bos, parse_special=parse_special),
        )

    def _admit(self, more: int, busy: int) -> None:
        most = self.settings.max_requests
        if more > most:  # it would not fit the idlest server
            raise bad(None, f"{more} prompts in one request, {most} are possible")
        running = sum(len(record.generations) for record in self.registry.live())
        if running + more <= most:
            return
        raise ApiError(
            busy,
            f"{running} requests are being answered, the limit is {most}",
            headers={"Retry-After": "1"},
        )


# ---- requests


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
