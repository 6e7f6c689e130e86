"""Backends of every kind for the contract test: the engine here, and others behind a socket.

llama-server is started where ``PEERS_LLAMA_SERVER`` names it or it can be found; vLLM is used where
``PEERS_VLLM`` is the address of one that serves the bundled story model.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.backend import Backend
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import DialectName, RemoteOptions
from srbwriter.engine.types import EngineOptions
from srbwriter.server import Loaded, ServerSettings, start_in_thread
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

LLAMA_SERVER = os.environ.get("PEERS_LLAMA_SERVER") or shutil.which("llama-server")
VLLM = os.environ.get("PEERS_VLLM")
KINDS = ("local", "srb", "openai")
PEERS = ("llamacpp", "vllm")
"""Other programs, which only ``pytest -m slow`` asks."""

OPTIONS = EngineOptions(n_ctx=512, gpu_layers=0, seed=1, max_branches=4)


@contextlib.contextmanager
def backend_of(kind: str) -> Generator[Backend]:
    """One backend of that kind; skips the test where there is no such peer."""
    match kind:
        case "local":
            with load_engine(short_model(), OPTIONS) as engine:
                yield engine
        case "srb" | "openai":  # another srbwriter, by two of its faces
            with (
                load_engine(short_model(), OPTIONS) as engine,
                served(engine) as url,
                connected(url, kind) as it,
            ):
                yield it
        case "llamacpp":
            if LLAMA_SERVER is None:
                pytest.skip("llama-server is not installed")
            with llama_server(LLAMA_SERVER) as url, connected(url, kind) as it:
                yield it
        case _:
            if VLLM is None:
                pytest.skip("PEERS_VLLM names no vLLM")
            with connected(VLLM, "vllm") as it:
                yield it


@contextlib.contextmanager
def served(engine: Backend) -> Generator[str]:
    """The address of a server on ``engine``."""
    handle = start_in_thread(Loaded(engine), ServerSettings(port=0))
    try:
        yield handle.url
    finally:
        handle.stop(10)


@contextlib.contextmanager
def connected(url: str, dialect: DialectName = "auto") -> Generator[RemoteEngine]:
    with RemoteEngine.connect(RemoteOptions(url, dialect=dialect, n_ctx=512, max_branches=4)) as engine:
        yield engine


@contextlib.contextmanager
def llama_server(program: str, slots: int = 4) -> Generator[str]:
    """The address of a llama-server on the bundled model, started for this."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "-m", bundled_model(), "--port", port, "-c", 2048 * slots, "-np", slots, "-t", 2]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(program).parent,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        transport = httpx.HTTPTransport(retries=8)  # waits twice as long before each
        with httpx.Client(transport=transport) as client:
            while client.get(f"{url}/health").status_code != 200:
                assert process.poll() is None
        yield url
    finally:
        process.terminate()
        process.wait(30)
