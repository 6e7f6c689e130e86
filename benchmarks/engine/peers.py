"""llama-server, if a folder with it is given: n completions of one prompt (``n_cmpl``) over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from srbwriter.engine import Engine
from srbwriter.engine.native.amx import weights_may_be_repacked
from srbwriter.engine.native.spin import spin_limits

from .contestants import Score
from .setting import Setting, story_ids

START_SECONDS = 120.0
_FEW_FIELDS = ["index", "stop", "tokens_predicted", "timings"]  # of an answer's end, which is long otherwise


class CompletionServer:
    """A program that answers llama.cpp's ``/completion``, up until it is closed."""

    def __init__(
        self, setting: Setting, name: str, command: Sequence[str], environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:  # fmt: skip
        """Start ``command`` with a port to listen on. Raises RuntimeError if it does not come up."""
        self.setting, self.name = setting, name
        port = str(free_port())
        self.address = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", port],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=folder,
        )  # fmt: skip
        try:
            wait_until_up(self.process, self.address, name)
        except BaseException:
            self.close()
            raise

    def complete(self, prompt: list[int], n: int, tokens: int, seed: int) -> int:
        """Tokens written in n completions."""
        with self._ask("/completion", self._body(prompt, n, tokens, seed)) as answer:
            takes: Any = json.load(answer)
        return sum(int(take["tokens_predicted"]) for take in (takes if isinstance(takes, list) else [takes]))

    def stream(self, prompt: list[int], n: int, tokens: int, seed: int) -> Iterator[dict[str, Any]]:
        """The chunks of n completions as they come. Raises RuntimeError for an error among them."""
        body = {**self._body(prompt, n, tokens, seed), "stream": True, "response_fields": _FEW_FIELDS}
        with self._ask("/completion", body) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    chunk: dict[str, Any] = json.loads(line[6:])
                    if "error" in chunk:
                        raise RuntimeError(f"{self.name}: {chunk['error']}")
                    yield chunk

    def processor_seconds(self) -> float:
        """Processor time the server has used; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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
        super().__init__(setting, "llama-server", command, _environment(setting))


class ServerContestant:
    """A llama-server that writes n completions at once."""

    name = "llama-server"

    def __init__(self, setting: Setting, engine: Engine, server: Server) -> None:
        self.setting, self.server = setting, server
        self.prompt = story_ids(engine, setting.prompt)

    def write(self, n: int, seed: int) -> Score:
        server = self.server
        server.complete(self.prompt, 1, 1, seed)
        begun, busy = time.perf_counter(), server.processor_seconds()
        tokens = server.complete(self.prompt, n, self.setting.tokens, seed)
        return Score(tokens, time.perf_counter() - begun, server.processor_seconds() - busy)


def wait_until_up(process: subprocess.Popen[bytes], address: str, name: str) -> None:
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


def _environment(setting: Setting) -> dict[str, str]:
    """For the program: without what the engine has set for this process, which says how threads wait."""
    own = spin_limits({}) if setting.defaults else {}
    return {name: value for name, value in os.environ.items() if name not in own}


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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
