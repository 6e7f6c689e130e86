"""App and server together for an hour: ``python -m benchmarks.soak --minutes 60`` (``just soak``).

The real program runs in a pseudo-terminal with ``--port``. A typist writes sentences, lets branches be
written, picks, takes picks back, rolls again and explores the tree; clients use the HTTP side at the same
time: whole answers, streams that they leave in the middle, and requests that must be refused. Memory and
open files of the process are read every ten seconds. In the end every sentence that was typed has to be in
the story, and memory must not have grown in the second half. What the engine reserves when it starts becomes
resident as it is first used, so all of it is used before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from benchmarks.engine.peers import free_port
from tests.terminal.support import make_story, prose, text_of, to_branches
from tests.terminal.terminal import CTRL_N, CTRL_Y, CTRL_Z, Terminal

SECONDS_BETWEEN = 10.0  # two looks at the process
KEYS_A_SECOND = 12.0
_FULL_WINDOWS = 24  # prompts: more than the cells and 64 MiB of copies hold
MOST_GROWTH = 8.0  # MiB in the second half: caches of Python and of the allocator come and go


@dataclass
class Watch:
    """Memory (MiB) and open files of a process over time."""

    pid: int
    memory: list[float] = field(default_factory=list["float"])
    files: list[int] = field(default_factory=list["int"])

    def look(self) -> None:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1])
        self.memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        self.files.append(len(os.listdir(f"/proc/{self.pid}/fd")))

    @property
    def growth(self) -> float:
        """MiB by which memory grew in the second half: a straight line through it, end less beginning."""
        half = self.memory[len(self.memory) // 2 :]
        if len(half) < 3:
            return 0.0
        slope, _ = np.polyfit(np.arange(len(half)), half, 1)
        return float(slope) * (len(half) - 1)


class Client(threading.Thread):
    """A client of the HTTP server until ``over``."""

    def __init__(self, url: str, seed: int, over: threading.Event) -> None:
        super().__init__(name=f"client-{seed}", daemon=True)
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self._chance, self._over = random.Random(seed), over
        self._client = httpx.Client(base_url=url, timeout=120)

    def run(self) -> None:
        acts: list[Callable[[], None]] = [self._whole, self._left, self._refused, self._looked, self._chat]
        with self._client:
            while not self._over.is_set():
                act = self._chance.choice(acts)
                try:
                    act()
                except (httpx.HTTPError, AssertionError, KeyError) as error:
                    self.problems.append(f"{act.__name__}: {error!r}")
                self.done[act.__name__.lstrip("_")] += 1
                self._over.wait(self._chance.uniform(0, 0.3))

    def _prompt(self) -> str:
        words = prose(self._chance)
        return "".join(next(words) for _ in range(self._chance.randrange(1, 400)))

    def _whole(self) -> None:
        body = {"prompt": self._prompt(), "n": self._chance.randrange(1, 9), "max_tokens": 24, "logprobs": 2}
        answer = self._client.post("/v1/completions", json={**body, "model": "any"})
        assert answer.is_success and len(answer.json()["choices"]) == body["n"], answer.text

    def _left(self) -> None:
        """A stream that is left in the middle."""
        body = {"prompt": self._prompt(), "n": 4, "max_tokens": 200, "ignore_eos": True}
        with self._client.stream("POST", "/srb/v1/completions?sse=1", json=body) as answer:
            for _, _ in zip(range(self._chance.randrange(1, 30)), answer.iter_lines(), strict=False):
                pass

    def _refused(self) -> None:
        body = self._chance.choice([b"{", b'{"prompt": 5}', b'{"prompt": "a", "n": 9999}', b"\xff" * 100])
        answer = self._client.post("/v1/completions", content=body)
        assert answer.status_code == 400 and answer.json()["error"], answer.text

    def _looked(self) -> None:
        for path in ("/health", "/props", "/v1/models"):
            assert self._client.get(path).is_success

    def _chat(self) -> None:
        body = {"messages": [{"role": "user", "content": self._prompt()}], "max_tokens": 12}
        answer = self._client.post("/v1/chat/completions", json=body)
        assert answer.is_success and json.loads(answer.text)["choices"], answer.text


def use_all(url: str, chance: random.Random) -> None:
    """Use all that the engine has reserved: every cell, rows of logits for a whole batch, every branch."""
    long, broad = {"max_tokens": 40, "echo": True, "logprobs": 1}, {"max_tokens": 100, "n": 64}
    with httpx.Client(base_url=url, timeout=120) as client:
        window = client.get("/props").json()["default_generation_settings"]["n_ctx"]
        for wanted, tokens in [(long, window - 48)] * _FULL_WINDOWS + [(broad, window // 2)] * 4:
            prompt = [chance.randrange(300, 3000) for _ in range(tokens)]
            body = {"model": "any", "prompt": prompt, "ignore_eos": True, **wanted}
            assert client.post("/v1/completions", json=body).is_success


class Typist:
    """A writer at the keyboard; ``sentences`` must be in the story at the end."""

    def __init__(self, terminal: Terminal, seed: int) -> None:
        self.terminal, self.sentences, self.rounds = terminal, list[str](), 0
        self._chance = random.Random(seed)
        self._words = prose(self._chance)

    def type_sentence(self) -> None:
        """One that no other is like; it is typed where the story ends."""
        words = "".join(next(self._words) for _ in range(40)).strip()
        sentence = f" Line {len(self.sentences)}: {words}."
        pauses = (self._chance.expovariate(KEYS_A_SECOND) for _ in iter(int, 1))
        self.terminal.type_steadily(sentence, pauses)
        self.sentences.append(sentence)

    def play_round(self) -> None:
        """Branches, maybe rolled again, one picked, maybe taken back and done again; then a sentence."""
        chance, press = self._chance, self.terminal.press
        press(CTRL_N)
        self.terminal.wait(lambda shown: shown.count("■") >= 2, "branches that have ended")
        to_branches(self.terminal)
        if chance.random() < 0.3:
            press(b"r")
        while "BRANCH" in self.terminal.screen:  # a branch without words cannot be picked yet
            press(b"1")
            self.terminal.rest(0.2)
        if chance.random() < 0.3:
            press(CTRL_Z, CTRL_Y)
        self.rounds += 1
        self.type_sentence()


def report(watch: Watch, typist: Typist, clients: Sequence[Client], missing: Sequence[str]) -> list[str]:
    """Print the results; return the failures."""
    acts = sum((client.done for client in clients), Counter[str]())
    problems = [problem for client in clients for problem in client.problems]
    problems += [f"not in the story: {sentence!r}" for sentence in missing]
    if watch.growth > MOST_GROWTH:
        problems.append(f"memory grew by {watch.growth:.1f} MiB in the second half")
    if watch.files[-1] > watch.files[len(watch.files) // 2] + 8:
        problems.append(f"open files grew from {watch.files[len(watch.files) // 2]} to {watch.files[-1]}")
    steps = [watch.memory[k * (len(watch.memory) - 1) // 8] for k in range(9)]
    print(f"{typist.rounds} rounds, {len(typist.sentences)} sentences typed, {len(missing)} missing")
    print(f"HTTP: {', '.join(f'{count} {name}' for name, count in sorted(acts.items()))}")
    print(f"memory in eight equal steps: {', '.join(f'{size:.0f}' for size in steps)} MiB; ", end="")
    print(f"second half {watch.growth:+.1f} MiB; open files {watch.files[0]} to {watch.files[-1]}")
    for problem in problems:
        print(f"- {problem}")
    return problems


def main(argv: Sequence[str] | None = None) -> None:
    words = str(__doc__).split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=words)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    over = threading.Event()
    terminal, port = Terminal(Path(tempfile.mkdtemp(prefix="soak-"))), free_port()
    file = make_story(terminal.folder)
    # The cache in memory is bounded, and small here, so that it is full soon: what grows then is a leak.
    terminal.start("--port", str(port), "--cache-ram", "64", file)
    try:
        terminal.wait_for("It rained.")
        typist = Typist(terminal, args.seed)
        typist.play_round()
        url = f"http://127.0.0.1:{port}"
        clients = [Client(url, args.seed + k, over) for k in range(args.clients)]
        use_all(url, random.Random(args.seed))
        for client in clients:
            client.start()
        watch, end = Watch(terminal.pid), time.monotonic() + 60 * args.minutes
        looked = 0.0
        while time.monotonic() < end:
            typist.play_round()
            if time.monotonic() - looked >= SECONDS_BETWEEN:
                looked = time.monotonic()
                watch.look()
        over.set()
        for client in clients:
            client.join(180)
        watch.look()
        terminal.press()  # returns when all keys have been read
        terminal.kill(signal.SIGTERM)
        terminal.ended()
    finally:
        over.set()
        terminal.close()
    text = text_of(file)
    missing = [sentence for sentence in typist.sentences if sentence not in text]
    raise SystemExit(1 if report(watch, typist, clients, missing) else 0)


if __name__ == "__main__":
    main()
