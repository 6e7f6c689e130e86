"""What every handler works with: the engine behind its loader, the register of requests, the limits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

from srbwriter import __version__
from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Generation
from srbwriter.engine.limits import check_prompt
from srbwriter.engine.types import EngineError, Prompt, Request, TokenRun

from .auth import ServerError, read_text
from .errors import ApiError, Dialect, from_engine, unavailable
from .follow import Bridge
from .infill import infill_ids
from .loader import Loader
from .prompt import read_prompts
from .registry import Record, Registry
from .settings import ServerSettings
from .slots import Slot, Slots
from .template import template_of

T = TypeVar("T")

_LONG_TEXT = 20_000  # characters; tokenising more would hold up other clients' streams


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """What stands before every prompt of llama.cpp's dialect, and the names its chat clients show."""

    prompt: str = ""
    anti_prompt: str = ""
    assistant_name: str = ""


class Services:
    """One per server. Used from the server's loop only."""

    def __init__(self, loader: Loader, settings: ServerSettings, bridge: Bridge) -> None:
        self.loader = loader
        self.settings = settings
        self.bridge = bridge
        self.registry = Registry(settings.keep_requests, settings.keep_seconds)
        self.slots = Slots()
        self.system = _read_system(settings)
        self.chat_template = template_of(settings)
        self.started = time.time()
        self.openapi: dict[str, Any] = {}
        self.tokens_max = 0

    @property
    def engine(self) -> Backend:
        """Raises ApiError (503) while the model is being loaded, or when it could not be."""
        engine = self.loader.engine
        if engine is not None:
            return engine
        if self.loader.error is not None:
            raise unavailable(f"the model could not be loaded: {self.loader.error}", 60)
        raise unavailable("Loading model", 1)

    @property
    def max_n(self) -> int:
        engine = self.loader.engine
        return self.settings.max_n if engine is None else min(self.settings.max_n, engine.max_branches)

    @property
    def model_name(self) -> str:
        if self.settings.alias:
            return self.settings.alias
        engine = self.loader.engine
        return engine.info.name if engine is not None else "model"

    @property
    def fingerprint(self) -> str:
        """What answers name as their system: the program and its version."""
        return f"srbwriter-{__version__}"

    @property
    def state(self) -> str:
        """The loader's state, or RUNNING while requests are answered."""
        state = self.loader.state
        name = str(getattr(state, "name", state)).upper()
        return "RUNNING" if name == "READY" and self.registry.live() else name

    async def submit(self, requests: Sequence[Request], dialect: Dialect, id: str | None = None) -> Record:
        """Hand requests to the engine as one record. All are submitted or none is.

        Raises ApiError: 400 for what the engine refuses, 429 or 503 with Retry-After when too much runs.
        """
        engine = self.engine
        self._admit(len(requests), dialect)
        generations: list[Generation] = []
        try:
            for request in requests:
                generations.append(
                    await off_loop(_length(request), lambda r=request: engine.submit(r))
                )
        except Exception as error:
            for generation in generations:
                generation.cancel()
            raise from_engine(error) from error
        self.tokens_max = max(self.tokens_max, *(len(g.prompt_ids) for g in generations))
        return self.registry.add(dialect, generations, id)

    async def tokenize(self, text: str, *, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        engine = self.engine
        check_prompt("content", len(text))
        return await off_loop(
            len(text), lambda: engine.tokenize(text, add_bos=add_bos, parse_special=parse_special)
        )

    async def read_prompts(self, value: Any) -> list[Prompt]:
        """Every prompt of a request; see :func:`.prompt.read_prompts`. Raises ApiError (400)."""
        engine = self.engine
        return await off_loop(_extent(value), lambda: read_prompts(value, engine))

    async def infill(self, prefix: Prompt, suffix: str, extra: str = "") -> list[int]:
        """Token ids that ask for what stands between two texts. Raises ApiError (501)."""
        engine = self.engine
        before = await self.tokenize(extra) if extra else []
        size = _extent(prefix) + len(suffix)
        check_prompt("prompt", size)
        return await off_loop(size, lambda: infill_ids(engine, prefix, suffix, before))

    async def pin_slot(self, slot: Slot) -> None:
        """Keep what the slot's branch left in the cache, if the engine can pin."""
        pin = getattr(self.engine, "pin", None)
        if pin is not None and slot.ids:
            ids = slot.ids
            try:
                await asyncio.to_thread(pin, f"slot-{slot.id}", ids)
            except EngineError as error:
                raise from_engine(error) from error
            slot.pinned = True

    async def erase_slot(self, slot: Slot) -> int:
        """Forget a slot's text; the number of its tokens."""
        erased = len(slot.ids)
        unpin = getattr(self.engine, "unpin", None)
        if slot.pinned and unpin is not None:
            await asyncio.to_thread(unpin, f"slot-{slot.id}")
        slot.record, slot.pinned = None, False
        return erased

    def _admit(self, more: int, dialect: Dialect) -> None:
        running = sum(len(record.generations) for record in self.registry.live())
        if running + more <= self.settings.max_requests:
            return
        raise ApiError(
            429 if dialect == "openai" else 503,
            f"{running} requests are being answered, the limit is {self.settings.max_requests}",
            headers={"Retry-After": "1"},
        )


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """What ``work`` answers; on a thread when it looks at so many characters that others would wait."""
    return await asyncio.to_thread(work) if size > _LONG_TEXT else work()


def _extent(value: Any) -> int:
    """Entries of a list and characters of a text, and of those in the list."""
    if isinstance(value, str):
        return len(value)
    items = cast("Sequence[Any]", value) if isinstance(value, Sequence) else ()
    return len(items) + sum(len(item) for item in items if isinstance(item, str))


def _length(request: Request) -> int:
    """Characters, or as many as take the engine as long, that it looks at before it takes a request."""
    prompt, sampling = request.prompt, request.sampling
    first = sampling[0] if isinstance(sampling, tuple) else sampling
    constraint = len(first.grammar or first.json_schema or first.regex or "")
    if isinstance(prompt, str):
        return len(prompt) + constraint * 8
    runs = [item for item in prompt if isinstance(item, TokenRun)]
    return len(prompt) + sum(len(run.text) + len(run.ids or ()) for run in runs) + constraint * 8


def _read_system(settings: ServerSettings) -> SystemPrompt:
    """The file's text, or what its JSON object says in the fields of llama.cpp's ``system_prompt``."""
    file = settings.system_prompt_file
    if file is None:
        return SystemPrompt()
    text = read_text(file, "the system prompt")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return SystemPrompt(text)
    if not isinstance(value, dict):
        return SystemPrompt(text)
    told = {part.name: cast("dict[str, Any]", value).get(part.name, "") for part in fields(SystemPrompt)}
    wrong = next((name for name, item in told.items() if not isinstance(item, str)), None)
    if wrong is not None:
        raise ServerError(f"{file}: {wrong}: expected text")
    return SystemPrompt(**told)
