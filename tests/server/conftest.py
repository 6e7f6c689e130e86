"""Servers on real sockets, in threads, over the scripted engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from srbwriter.engine import Engine
from srbwriter.engine.types import EngineOptions
from srbwriter.server import Loaded, ServerHandle, ServerSettings, start_in_thread
from tests.fakes.engine import FakeEngine
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    fake = FakeEngine()
    yield fake
    fake.close()


Serve = Callable[..., ServerHandle]


@pytest.fixture
def serve(engine: FakeEngine) -> Iterator[Serve]:
    """Start servers on free ports; keyword arguments are settings, ``loader`` another loader."""
    handles: list[ServerHandle] = []

    def start(loader: Any = None, **settings: Any) -> ServerHandle:
        settings = {"port": 0, "access_log": False, "shutdown_seconds": 1.0, **settings}
        handles.append(start_in_thread(loader or Loaded(engine), ServerSettings(**settings)))
        return handles[-1]

    yield start
    engine.release()
    for handle in handles:
        handle.stop(10)
        assert not handle.running


@pytest.fixture(scope="session")
def shared() -> Iterator[tuple[Loaded, str]]:
    """One server with default settings for all tests that need no other; its engine is put in by each."""
    loader = Loaded(None)  # type: ignore[arg-type]
    handle = start_in_thread(
        loader, ServerSettings(port=0, access_log=False, metrics=True, shutdown_seconds=1.0)
    )
    yield loader, handle.url
    handle.stop(10)


@pytest.fixture
def client(shared: tuple[Loaded, str], engine: FakeEngine) -> Iterator[httpx.Client]:
    """An httpx client of the shared server."""
    loader, url = shared
    loader.engine = engine
    with httpx.Client(base_url=url, timeout=60) as http:
        yield http


@pytest.fixture(scope="session")
def model() -> Iterator[Engine]:
    """The bundled model, for all tests that need no other."""
    with load_engine(short_model(), EngineOptions(n_ctx=2048, gpu_layers=0, seed=1, threads=1)) as engine:
        yield engine


@pytest.fixture(scope="session")
def real(model: Engine) -> Iterator[httpx.Client]:
    """A client of a server over the bundled model."""
    yield from serving(model)


def serving(engine: Engine) -> Iterator[httpx.Client]:
    """A client of a server of its own over the real ``engine``, which is closed afterwards."""
    with engine:
        handle = start_in_thread(Loaded(engine), ServerSettings(port=0, access_log=False))
        with httpx.Client(base_url=handle.url, timeout=60) as client:
            yield client
        handle.stop(20)
