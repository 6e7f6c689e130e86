"""Servers that write n branches of a prompt of token ids, over llama.cpp's ``/completion``.

Each runs as a process of its own and is watched from outside: when every branch had a token, when all had
ended, and how many tokens of the prompt its own counters say were evaluated.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.setting import Setting
from srbwriter.engine.native.amx import weights_may_be_repacked

HERE = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
_FEW_FIELDS = ["index", "stop", "tokens_predicted", "timings"]  # of an answer's end, which is long otherwise


@dataclass(frozen=True, slots=True)
class Written:
    """What came of one prompt; times in seconds since it was sent."""

    ids: list[list[int]]  # of each branch
    first: float  # until every branch had a token
    seconds: float  # until all had ended
    evaluated: int  # tokens of the prompt, all branches together

    @property
    def speed(self) -> float:
        """Tokens per second of all branches, from the request to the last token."""
        return sum(map(len, self.ids)) / self.seconds


class CompletionServer:
    """A program that answers llama.cpp's ``/completion``, up until it is closed."""

    def __init__(
        self, setting: Setting, name: str, command: Sequence[str], environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:  # fmt: skip
        """Start ``command`` with a port to listen on. Raises RuntimeError if it does not come up."""
        self.setting, self.name = setting, name
        port = str(_free_port())
        self.address = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", port],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=folder,
        )  # fmt: skip
        try:
            _wait_until_up(self.process, self.address, name)
        except BaseException:
            self.close()
            raise

    def tokenize(self, text: str) -> list[int]:
        with self._ask("/tokenize", {"content": text, "add_special": True}) as answer:
            return json.load(answer)["tokens"]

    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Written:
        """Write n branches of ``tokens`` tokens each. Raises RuntimeError for an error in the stream."""
        ids: list[list[int]] = [[] for _ in range(n)]
        silent, first, evaluated, begun = set(range(n)), 0.0, 0, time.perf_counter()
        for chunk in self._stream(prompt, n, tokens, seed):
            if not chunk["stop"]:
                ids[chunk["index"]] += chunk["tokens"]
                silent.discard(chunk["index"])
                first = first or (0.0 if silent else time.perf_counter() - begun)
            elif chunk["index"] == 0:  # the others are copies of it
                evaluated = int(chunk["timings"]["prompt_n"])
        return Written(ids, first, time.perf_counter() - begun, evaluated)

    @property
    def memory(self) -> float:
        """Return the peak resident memory of the process, in MiB; 0 if unknown."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        except OSError:
            return 0.0
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def _stream(self, prompt: list[int], n: int, tokens: int, seed: int) -> Iterator[dict[str, Any]]:
        """The chunks of n completions as they come. Raises RuntimeError for an error among them."""
        body = {**self._body(prompt, n, tokens, seed), "stream": True, "response_fields": _FEW_FIELDS}
        with self._ask("/completion", body) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    chunk: dict[str, Any] = json.loads(line[6:])
                    if "error" in chunk:
                        raise RuntimeError(f"{self.name}: {chunk['error']}")
                    yield chunk

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _body(self, prompt: list[int], n: int, tokens: int, seed: int) -> dict[str, Any]:
        body = {"prompt": prompt, "n_predict": tokens, "n_cmpl": n, "seed": seed, "ignore_eos": True}
        if self.setting.defaults:
            return body
        samplers = ["top_k", "top_p", "min_p", "temperature"]
        return {**body, **self.setting.sampler_fields(), "cache_prompt": True, "samplers": samplers}

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=600)


class Server(CompletionServer):
    """A ``llama-server`` with ``slots`` slots over one cache."""

    def __init__(self, setting: Setting, program: Path, slots: int) -> None:
        command = [str(program), *_common(setting), "-np", str(slots), "-kvu", "--no-webui"]
        super().__init__(setting, "llama-server", command, os.environ)


def start_srbwriter(
    setting: Setting, name: str, home: Path, *flags: str, checkout: Path = HERE
) -> CompletionServer:  # fmt: skip
    """Start the program of ``checkout`` with ``--serve`` and a HOME of its own."""
    command = [
        sys.executable, "-m", "srbwriter", "--serve", "-m", str(setting.model.resolve()),
        "-c", str(setting.cells), "--gpu-layers", "0", *flags,
    ]  # fmt: skip
    if not setting.defaults:
        threads = str(setting.thread_count)
        flash = "on" if setting.flash else "off"
        command += ["--threads", threads, "--threads-batch", threads, "--flash-attn", flash]
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(checkout)}
    return CompletionServer(setting, name, command, environment, checkout)


def _wait_until_up(process: subprocess.Popen[bytes], address: str, name: str) -> None:
    """Wait until the server at ``address`` says that it is well. Raises RuntimeError where it does not."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode} before it was up")
        try:
            urllib.request.urlopen(f"{address}/health", timeout=600).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise RuntimeError(f"{name} was not up after {START_SECONDS:.0f} seconds")


def program(folder: Path | None, name: str) -> Path:
    """The executable ``name`` in ``folder``, or in its ``bin``. Ends the benchmark if it is in neither."""
    if folder is None:
        raise SystemExit(f"--peers: say in which folder {name} is")
    for place in (folder / name, folder / "bin" / name):
        if place.is_file():
            return place
    raise SystemExit(f"--peers: {name} is not in {folder}")


def _common(setting: Setting) -> list[str]:
    common = [
        "-m", str(setting.model), "-c", str(setting.cells),
        *([] if weights_may_be_repacked() else ["--no-repack"]),  # as the engine has them
    ]  # fmt: skip
    if setting.defaults:
        return common
    threads = str(setting.thread_count)
    return [
        *common, "-b", "512", "-ub", "512", "-ngl", "0", "-t", threads, "-tb", threads,
        "-fa", "on" if setting.flash else "off",
    ]  # fmt: skip


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
