"""The models of one server: which are loaded, which one a request uses, and which one makes room for another.

Each has services of its own that share everything but the engine with those of the first. A model is loaded
on the first request for it, and unloaded when another needs its place: the least recently used one, never one
that is answering. All of this has no effect where there is one model alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast

from srbwriter.models.fit import free_memory, size_words
from srbwriter.server.errors import ApiError, bad, unavailable

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.server.registry import Record, Registry
    from srbwriter.server.settings import ServerSettings

_LOOK = 0.02  # seconds between looks at a load, or at requests that are to end


class Loader(Protocol):
    """Load a backend in the background. ``state`` is INIT, LOADING, READY or FAILED."""

    @property
    def state(self) -> str: ...
    @property
    def engine(self) -> Backend | None: ...
    @property
    def error(self) -> Exception | None: ...


class Reloader(Loader, Protocol):
    """A loader that can be started, closed and copied for another start."""

    def start(self) -> object: ...
    def close(self) -> None: ...
    def again(self) -> Self: ...


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model that a server may load.

    ``need`` estimates its memory in bytes. Without a ``name`` it has the one in its file. One that is
    ``kept`` has another owner: it is neither loaded nor unloaded here.
    """

    loader: Loader
    name: str = ""
    need: int = 0
    kept: bool = False


class ModelServices(Protocol):
    """What the models of a server read and change in the services of each."""

    loader: Loader
    name: str
    number: int
    models: Any
    settings: ServerSettings
    registry: Registry

    @property
    def engine(self) -> Backend: ...
    @property
    def model_name(self) -> str: ...
    @property
    def model_names(self) -> Collection[str]: ...
    def beside(self, loader: Loader, name: str, number: int) -> Self: ...
    def renew(self, loader: Loader) -> None: ...


S = TypeVar("S", bound=ModelServices)


class ModelSlot(Generic[S]):
    """One of the models, and its use."""

    def __init__(self, services: S, offer: ModelSpec) -> None:
        self.services, self.need, self.kept = services, offer.need, offer.kept
        self.holds = 0  # answers that are being made with it
        self.used = 0  # when that began last, on the clock of all models

    @property
    def state(self) -> str:
        state = self.services.loader.state
        return str(getattr(state, "name", state)).upper()

    @property
    def reloader(self) -> Reloader:
        """Its loader, where it is not kept."""
        return cast(Reloader, self.services.loader)

    @property
    def up(self) -> bool:
        """Whether it takes memory."""
        return self.state in ("LOADING", "READY")

    @property
    def busy(self) -> bool:
        number = self.services.number
        return self.holds > 0 or any(record.model == number for record in self.services.registry.live())

    @property
    def status(self) -> str:
        """Its state in the words of llama-server's router."""
        words = {"INIT": "unloaded", "LOADING": "loading", "READY": "loaded", "FAILED": "failed"}
        return words[self.state]


class Models(Generic[S]):
    """All models of a server, ``most`` of them loaded at once (0: as many as fit). Used from its loop only.

    ``offers`` has the first as well, whose services are given; it may be empty where that is alone.
    """

    def __init__(self, first: S, offers: Sequence[ModelSpec], most: int) -> None:
        offers = offers or [ModelSpec(first.loader, kept=True)]
        self._most = most
        self._all = [
            ModelSlot(first if number == 0 else first.beside(offer.loader, offer.name, number), offer)
            for number, offer in enumerate(offers)
        ]
        self.alone = len(self._all) == 1  # then it answers to any name
        first.name = offers[0].name
        for one in self._all:
            one.services.models = self
        self._current = self._all[0]
        self._door = asyncio.Lock()  # whoever waits for a place lets nobody past
        self._clock = count(1)

    def __iter__(self) -> Iterator[ModelSlot[S]]:
        return iter(self._all)

    @property
    def names(self) -> list[str]:
        """One name of each."""
        return [one.services.model_name for one in self._all]

    def named(self, name: str) -> ModelSlot[S]:
        """The model of that name; without one, the current. Raises ApiError (404)."""
        if not name or self.alone:
            return self._current
        bare = name.removesuffix(".gguf")
        for one in self._all:
            if name in one.services.model_names or bare in one.services.model_names:
                return one
        raise ApiError(
            404, f"there is no model {name[:200]}; this server has {', '.join(self.names)}",
            field="model", code="model_not_found",
        )  # fmt: skip

    def of(self, record: Record) -> ModelSlot[S]:
        """The model that answers a request."""
        return self._all[record.model]

    def shown(self) -> ModelSlot[S]:
        """The model that questions without a name are about: the current if it is loaded, else the latest."""
        loaded = [one for one in self._all if one.up]
        if self._current in loaded or not loaded:
            return self._current
        return max(loaded, key=lambda one: one.used)

    def loaded(self) -> list[S]:
        """The services of those that can answer now."""
        return [one.services for one in self._all if one.services.loader.engine is not None]

    def hold(self, one: ModelSlot[S]) -> None:
        """Keep it from being unloaded until :meth:`release`."""
        one.holds += 1
        one.used = next(self._clock)

    def release(self, one: ModelSlot[S]) -> None:
        one.holds -= 1

    async def take(self, one: ModelSlot[S]) -> None:
        """Hold a model that is loaded, which may take some time.

        Raises ApiError: 501 where it does not fit, 503 where it cannot be loaded or no place becomes free.
        """
        try:
            async with asyncio.timeout(one.services.settings.timeout):
                async with self._door:
                    if not one.up and not one.kept:
                        await self._make_room(one)
                        if one.state == "FAILED":  # whatever was wrong may have been put right
                            one.services.loader = one.reloader.again()
                        one.reloader.start()
                    self.hold(one)
                try:
                    await self._until_loaded(one)
                except BaseException:
                    self.release(one)
                    raise
        except TimeoutError:
            raise unavailable(f"{one.services.model_name} found no place in time; try again later") from None

    @asynccontextmanager
    async def held(self, services: S) -> AsyncGenerator[None]:
        """Its model, for as long as this is entered. Raises ApiError as :meth:`take` does."""
        if self.alone:
            yield
            return
        one = self._all[services.number]
        await self.take(one)
        try:
            yield
        finally:
            self.release(one)

    async def load(self, name: str, *, choose: bool = True) -> None:
        """Load a model, which is the current one from then on, or is not if ``choose`` is false.

        Raises ApiError: 404 also where there is one model alone, and as :meth:`take` does.
        """
        one = self.named(name)
        if self.alone:
            if name in one.services.model_names:
                return
            raise ApiError(404, f"there is no model {name[:200]}; this server has {one.services.model_name}")
        await self.take(one)
        self.release(one)
        if choose:
            self._current = one

    async def unload(self, name: str) -> None:
        """Raise ApiError: 400 for one that is not loaded, 409 while it answers, 501 for one that is kept."""
        one = self.named(name)
        named = one.services.model_name
        async with self._door:
            if self.alone or one.kept:
                raise ApiError(501, f"this server keeps its model, {named}; end the server instead")
            if not one.up:
                raise bad("model", f"{named} is not loaded")
            if one.busy:
                raise ApiError(409, f"{named} answers requests; end them first")
            await self._close(one)

    def close(self) -> None:
        """Unload all; for a server that has ended."""
        for one in self._all:
            if not one.kept:
                one.reloader.close()

    # ---- making room

    async def _until_loaded(self, one: ModelSlot[S]) -> None:
        while one.services.loader.engine is None:
            if one.services.loader.error is not None:
                _ = one.services.engine  # raises it in words
            await asyncio.sleep(_LOOK)

    async def _make_room(self, one: ModelSlot[S]) -> None:
        """Unload idle models, least recently used first, until ``one`` fits. Raises ApiError (501)."""
        while True:
            others = [other for other in self._all if other.up]
            free = self._free()
            crowded = 0 < self._most <= len(others)
            if not crowded and one.need <= free:
                return
            movable = [other for other in others if not other.kept]
            if one.need > free + sum(other.need for other in movable if other.state == "READY"):
                if not any(other.state == "LOADING" for other in movable):
                    raise ApiError(501, self._too_large(one, free))
            elif not movable:
                raise ApiError(
                    501, f"{one.services.model_name} has no place beside {others[0].services.model_name}, "
                    f"which stays: give --models-max {self._most + 1} or more",
                )  # fmt: skip
            idle = [other for other in movable if not other.busy and other.state == "READY"]
            if idle:
                await self._close(min(idle, key=lambda other: other.used))
            else:
                await asyncio.sleep(_LOOK)

    def _free(self) -> int:
        """Bytes that are free, less what those will take that are being loaded."""
        return free_memory() - sum(one.need for one in self._all if one.state == "LOADING")

    def _too_large(self, one: ModelSlot[S], free: int) -> str:
        return (
            f"{one.services.model_name} does not fit: it takes about {size_words(one.need)}, and "
            f"{size_words(max(free, 0))} are free when all others are unloaded; "
            "take a smaller one, or less --ctx-size"
        )

    async def _close(self, one: ModelSlot[S]) -> None:
        """Unload. Requests that it has answered are forgotten, as their tokens mean nothing without it."""
        loader = one.reloader
        one.services.renew(loader.again())
        for record in one.services.registry:
            if record.model == one.services.number:
                one.services.registry.remove(record)
        await asyncio.to_thread(loader.close)
