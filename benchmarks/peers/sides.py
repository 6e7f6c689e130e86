"""Programs that write n branches of a prompt of token ids: how each is started, asked, and read.

Each runs as a process of its own and is watched from outside: when every branch had a token, when all had
ended, and how many tokens of the prompt its own counters say were evaluated.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.engine import peers
from benchmarks.engine.setting import Setting

HERE = Path(__file__).resolve().parents[2]


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


class Reading:
    """Collects the tokens of n branches as they come."""

    def __init__(self, n: int) -> None:
        self.ids: list[list[int]] = [[] for _ in range(n)]
        self.first = 0.0
        self._silent, self._begun = set(range(n)), time.perf_counter()

    def add(self, index: int, ids: list[int]) -> None:
        self.ids[index] += ids
        self._silent.discard(index)
        if not self._silent and not self.first:
            self.first = time.perf_counter() - self._begun

    def end(self, evaluated: int) -> Written:
        return Written(self.ids, self.first, time.perf_counter() - self._begun, evaluated)


class Peer(ABC):
    """A program that writes; ``name`` is its name in the table."""

    name: str
    pid: int = 0

    @abstractmethod
    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Written:
        """Write n branches of ``tokens`` tokens each."""

    @abstractmethod
    def close(self) -> None: ...

    @property
    def memory(self) -> float:
        """Return the peak resident memory of the process, in MiB; 0 if unknown."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        except OSError:
            return 0.0
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found and self.pid else 0.0


class OverHttp(Peer):
    """A server of llama.cpp's ``/completion``: the same requests, and the same reader, for each of them."""

    def __init__(self, server: peers.CompletionServer) -> None:
        self.name, self.server, self.pid = server.name, server, server.process.pid

    def tokenize(self, text: str) -> list[int]:
        answer = httpx.post(f"{self.server.address}/tokenize", json={"content": text, "add_special": True})
        return answer.raise_for_status().json()["tokens"]

    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Written:
        reading, evaluated = Reading(n), 0
        for chunk in self.server.stream(prompt, n, tokens, seed):
            if not chunk["stop"]:
                reading.add(chunk["index"], chunk["tokens"])
            elif chunk["index"] == 0:  # the others are copies of it
                evaluated = int(chunk["timings"]["prompt_n"])
        return reading.end(evaluated)

    def close(self) -> None:
        self.server.close()


def start_srbwriter(
    setting: Setting, name: str, home: Path, *flags: str, checkout: Path = HERE
) -> OverHttp:  # fmt: skip
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
    return OverHttp(peers.CompletionServer(setting, name, command, environment, checkout))


class OneByOne(Peer):
    """llama-cpp-python's ``Llama``, which writes the branches one after the other."""

    name = "llama-cpp-python"

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        threads = 0 if setting.defaults else setting.thread_count
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.one_by_one", str(setting.model), str(setting.cells),
             str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.pid = self.process.pid
        assert next(self._events())["ready"]

    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Written:
        assert self.process.stdin is not None
        sampling = self.setting.sampler_fields()
        sampling["temp"] = sampling.pop("temperature")
        reading, evaluated = Reading(n), 0
        request = {"prompt": prompt, "n": n, "tokens": tokens, "seed": seed, **sampling}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        for event in self._events():
            if "id" in event:
                reading.add(event["index"], [event["id"]])
            elif "evaluated" in event:
                evaluated += event["evaluated"]
            else:
                break
        return reading.end(evaluated)

    def _events(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)
        raise RuntimeError(f"{self.name} ended with {self.process.wait()}")

    def close(self) -> None:
        with self.process:  # closes its pipes and waits
            pass


def _lines(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream of events. Raises RuntimeError with the words of an error."""
    if answer.is_error:
        raise RuntimeError(answer.read().decode(errors="replace"))
    for line in answer.iter_lines():
        if line.startswith("data: {"):
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(str(event["error"]))
            yield event


class Vllm(Peer):
    """A vLLM that runs already at ``url``; its processor settings are those it was started with."""

    name = "vLLM"

    def __init__(self, setting: Setting, url: str) -> None:
        self.setting = setting
        self.client = httpx.Client(base_url=url, timeout=600)
        self.model = self.client.get("/v1/models").raise_for_status().json()["data"][0]["id"]

    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Written:
        sampling: dict[str, Any] = {} if self.setting.defaults else self.setting.sampler_fields()
        if "repeat_penalty" in sampling:
            sampling["repetition_penalty"] = sampling.pop("repeat_penalty")
        body = {
            "model": self.model, "prompt": prompt, "n": n, "max_tokens": tokens, "seed": seed, "stream": True,
            "ignore_eos": True, "return_token_ids": True, **sampling,
        }  # fmt: skip
        before, reading = self._evaluated(), Reading(n)
        with self.client.stream("POST", "/v1/completions", json=body) as answer:
            for chunk in _lines(answer):
                for choice in chunk["choices"]:
                    if choice.get("token_ids"):
                        reading.add(choice["index"], choice["token_ids"])
        ended = reading.end(0)  # before its counters are read
        return Written(ended.ids, ended.first, ended.seconds, round(self._evaluated() - before))

    def _evaluated(self) -> float:
        """Prompt tokens so far, less those that its prefix cache held."""
        text = self.client.get("/metrics").raise_for_status().text
        return _counter(text, "vllm:prompt_tokens_total") - _counter(text, "vllm:prefix_cache_hits_total")

    def close(self) -> None:
        self.client.close()


def _counter(metrics: str, name: str) -> float:
    """The sum of a counter over its labels."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE))
