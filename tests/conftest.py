"""Fixtures that several rooms share. No test touches the folders or settings of whoever runs it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from srbwriter.demo import bundled_model

if TYPE_CHECKING:
    from srbwriter.engine import Engine


# Threads that wait for each other while other tests hold the cores do not spin meanwhile.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# How long an example takes says something about the machine, not about the program.
settings.register_profile(
    "srbwriter",
    deadline=None,
    derandomize="CI" in os.environ,  # what lands is judged by the same examples each time
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("srbwriter")

# Stories are saved thousands of times, and each save waits for the disk; memory keeps nobody waiting.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # looked up anew

# A worker has one core; threads of llama.cpp that wait for one wait for each other in a loop. A test that is
# about threads has a process of its own (engine/guards).
os.environ.setdefault("OMP_THREAD_LIMIT", "1")

# A shell's background job ignores ctrl+c, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Where the shell forbids compiled modules beside the source, keep them: hundreds of starts need them."""
    cache = getattr(config, "cache", None)  # which can be switched off
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and cache is not None:
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register ``--full``."""
    parser.addoption("--full", action="store_true", help="also run the tests marked full, which take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests marked ``full`` unless ``--full`` is given."""
    if not config.getoption("--full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: run it with --full"))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One more than there are cores: a third of the time tests wait for programs, timers and sockets.

    No process of its own where one file is named, which is often looked at with a debugger.
    """
    files = {argument.partition("::")[0] for argument in config.args}
    if len(files) == 1 and files.pop().endswith(".py"):
        return 0
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # that many
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end; the collector of garbage need not look through them each time."""
    gc.freeze()


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for each test: empty, without a setting or a file of the person's."""
    folder = tmp_path_factory.mktemp("home")
    for variable in [name for name in os.environ if name.startswith(("SRBWRITER_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def evaluated_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In no test does any engine evaluate a token that it holds, but for a reason that has a name."""
    from srbwriter.engine.cache import Cache

    account, unnamed = Cache._account, list[str]()

    def checked(cache: Cache, seq: int, *told: Any) -> None:
        before = cache.storage.traffic.evaluated_again.get("", 0)
        account(cache, seq, *told)
        if cache.storage.traffic.evaluated_again.get("", 0) != before:
            unnamed.append(f"sequence {seq}, {told}")

    monkeypatch.setattr(Cache, "_account", checked)
    yield
    assert unnamed == []


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine on the bundled model, shared by the whole run."""
    from srbwriter.engine import Engine
    from srbwriter.engine.types import EngineOptions

    with Engine.load(bundled_model(), EngineOptions(n_ctx=2048, gpu_layers=0, seed=1)) as loaded:
        yield loaded
