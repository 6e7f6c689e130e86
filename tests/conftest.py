"""Fixtures that several rooms share. No test touches the folders or settings of whoever runs it."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import site
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import psutil
import pytest
from hypothesis import HealthCheck, settings

from srbwriter.demo import BUNDLED_VARIABLE

if TYPE_CHECKING:
    from srbwriter.engine import Engine  # imported after HOME has been replaced


# Threads that wait for each other while other tests hold the cores do not spin meanwhile.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Stories are saved thousands of times, and each save waits for the disk; memory keeps nobody waiting.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # looked up anew

OF_A_RUN = "srbw-"  # and the number of its process: the path of a socket file in it must stay short


def make_run_folder() -> None:
    """Make a folder for all temporary files of this run, and delete it at the end.

    What a killed worker, a failed test or a stopped server leaves behind goes with it. Folders of runs that
    were killed themselves are deleted, too.
    """
    top = Path(tempfile.gettempdir())
    for left in top.glob(f"{OF_A_RUN}*"):
        number = left.name.removeprefix(OF_A_RUN)
        if number.isdecimal() and not psutil.pid_exists(int(number)):
            shutil.rmtree(left, ignore_errors=True)
    folder = top / f"{OF_A_RUN}{os.getpid()}"
    folder.mkdir(mode=0o711)  # a test that is another user goes through it
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TMPDIR"] = str(folder)  # also of the workers
    tempfile.tempdir = None


if "PYTEST_XDIST_WORKER" not in os.environ:
    make_run_folder()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends a run as ctrl+c does

# The tests, and all that they start, write with a model of a fifth of the size,
# which is quick.
os.environ[BUNDLED_VARIABLE] = str(Path(__file__).parent / "demo" / "storyteller.gguf")

# Variables that name the person's folders, settings, caches and tokens.
PERSONAL = ("SRBWRITER_", "XDG_", "NPM_CONFIG_", "HF_", "HUGGINGFACE_")


def personal_variables() -> list[str]:
    """Return the names of the environment variables that would lead a test to the person's files."""
    return [n for n in os.environ if n.upper().startswith(PERSONAL) and n != BUNDLED_VARIABLE]


def replace_home() -> Path:
    """Make HOME a new folder for this process and all that it starts.

    Each test has a home of its own (:func:`home`); this one is for what is imported and started before
    the first test and for fixtures of a module or of the whole run.
    """
    os.environ["PYTHONUSERBASE"] = site.getuserbase()  # packages installed with --user are still found
    for variable in personal_variables():
        del os.environ[variable]
    os.environ["HOME"] = folder = tempfile.mkdtemp(prefix="home-")
    return Path(folder)


HOME = replace_home()


def trust_one_authority(folder: Path) -> None:
    """Let this process and all that it starts trust one authority, whatever the person trusts.

    httpx loads each one that it trusts for each client, which takes 50 ms for those of the whole web.
    """
    first, end, _ = Path(certifi.where()).read_text("utf-8").partition("-----END CERTIFICATE-----\n")
    file = folder / "authority.pem"
    file.write_text(first + end, "utf-8")
    os.environ["SSL_CERT_FILE"] = str(file)


trust_one_authority(HOME)

# How long an example takes says something about the machine, not about the program. Examples share a server.
settings.register_profile(
    "ours",
    max_examples=25,
    deadline=None,
    derandomize="CI" in os.environ,  # what lands is judged by the same examples each time
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("ours")

# A worker has one core; threads of llama.cpp that wait for one wait for each other in a loop. A test that is
# about threads has a process of its own (engine/guards).
os.environ.setdefault("OMP_THREAD_LIMIT", "1")

# A shell's background job ignores ctrl+c, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Choose where compiled modules are kept.

    Where the shell forbids compiled modules beside the source, keep them: hundreds of starts need them.
    """
    cache = getattr(config, "cache", None)  # which can be switched off
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and cache is not None:
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a program which is missing."""
    needed = [program for marker in item.iter_markers("needs") for program in marker.args]
    if missing := [program for program in needed if not shutil.which(program)]:
        pytest.skip(f"not installed: {', '.join(missing)}")


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
    gc.set_threshold(20_000, 20, 20)  # and a screen of Textual is thousands of objects


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for each test: empty, without a setting or a file of the person's."""
    folder = Path(tempfile.mkdtemp(dir=HOME))
    for variable in personal_variables():
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine on the bundled model, shared by the whole run."""
    from srbwriter.demo import bundled_model
    from srbwriter.engine import Engine
    from srbwriter.engine.types import EngineOptions

    with Engine.load(bundled_model(), EngineOptions(n_ctx=2048, gpu_layers=0, seed=1)) as loaded:
        yield loaded
