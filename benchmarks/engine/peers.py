"""llama.cpp's own programs as contestants, where a folder with their executables is given.

``llama-batched-bench`` decodes without sampling; ``llama-server`` is asked for n completions of one
prompt (``n_cmpl``) over HTTP on this machine.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from srbwriter.engine import Engine
from srbwriter.engine.native.amx import weights_may_be_repacked

from .contestants import Score
from .setting import Setting, story_ids

START_SECONDS = 120.0


class BatchedBench:
    """One run of ``llama-batched-bench`` for every score."""

    name = "llama-batched-bench"

    def __init__(self, setting: Setting, program: Path) -> None:
        self.setting, self.program = setting, program

    def write(self, n: int, seed: int) -> Score:
        """Raises RuntimeError with the program's last words when it prints no result."""
        setting = self.setting
        command = [
            str(self.program), *_common(setting), "-npp", str(setting.prompt), "-ntg", str(setting.tokens),
            "-npl", str(n), "-pps", "-kvu", "--output-format", "jsonl",
        ]  # fmt: skip
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in run.stdout.splitlines():
            if line.lstrip().startswith("{"):
                result = json.loads(line)
                return Score(n * setting.tokens, float(result["t_tg"]), rows=n * setting.tokens)
        raise RuntimeError(f"{self.program} gave no result: {(run.stderr or run.stdout)[-400:]}")


class Server:
    """A ``llama-server`` with a slot for each branch, up while the benchmark runs."""

    name = "llama-server"

    def __init__(self, setting: Setting, engine: Engine, program: Path, most: int) -> None:
        self.setting = setting
        self.prompt = story_ids(engine, setting.prompt)
        port = _free_port()
        self.address = f"http://127.0.0.1:{port}"
        command = [
            str(program), *_common(setting), "-np", str(most), "-kvu", "--host", "127.0.0.1",
            "--port", str(port), "--no-webui",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._wait_until_up()
        except BaseException:
            self.close()
            raise

    def write(self, n: int, seed: int) -> Score:
        self._complete(1, 1, seed)
        begun = time.perf_counter()
        tokens = self._complete(n, self.setting.tokens, seed)
        return Score(tokens, time.perf_counter() - begun)

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _complete(self, n: int, tokens: int, seed: int) -> int:
        s = self.setting.sampling
        body = {
            "prompt": self.prompt, "n_predict": tokens, "n_cmpl": n, "cache_prompt": True, "seed": seed,
            "ignore_eos": True, "temperature": s.temperature, "top_k": s.top_k, "top_p": s.top_p,
            "min_p": s.min_p, "repeat_penalty": s.repeat_penalty,
            "samplers": ["top_k", "top_p", "min_p", "temperature"],
        }  # fmt: skip
        answer = self._ask("/completion", json.dumps(body).encode())
        takes: list[dict[str, Any]] = answer if isinstance(answer, list) else [answer]
        return sum(int(take["tokens_predicted"]) for take in takes)

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(self.address + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def _wait_until_up(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"llama-server ended with {self.process.returncode} before it was up")
            try:
                self._ask("/health")
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        raise RuntimeError(f"llama-server was not up after {START_SECONDS:.0f} seconds")


def find(folder: Path | None, name: str) -> Path | None:
    """The executable ``name`` in ``folder``, or in its ``bin``."""
    if folder is None:
        return None
    places = (folder / name, folder / "bin" / name)
    return next((place for place in places if place.is_file()), None)


def _common(setting: Setting) -> list[str]:
    threads = str(setting.thread_count)
    return [
        "-m", str(setting.model), "-c", str(setting.cells), "-b", "512", "-ub", "512", "-ngl", "0",
        "-t", threads, "-tb", threads, "-fa", "on" if setting.flash else "off",
        *([] if weights_may_be_repacked() else ["--no-repack"]),  # as the engine has them
    ]  # fmt: skip


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
