"""``python -m benchmarks.remote URL``: tokens per second through us, against a plain client of the same
engine.

Rounds of both take turns, so that other work on the machine affects both alike. The proxy is this program
with ``--serve --connect URL``, read by the plain client. vLLM's own metrics show the hits of its prefix
cache, and that cancelled requests ended there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from statistics import median

import httpx

from benchmarks.remote.plain import Score, ask
from srbwriter.engine.generation import Generation
from srbwriter.engine.remote.dialects.base import Completion
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import Request, Sampling, Stop, Text, TokenRun

PROMPT = "Once upon a time, there was a little fox who lived in the wood. "
BLOCK = 16  # tokens of vLLM's blocks


def asks(engine: RemoteEngine, prompt: str, branches: int, requests: int, tokens: int) -> list[Completion]:
    ids = tuple(engine.tokenize(prompt, add_bos=True))
    request = Request(prompt)
    return [
        Completion(ids, Sampling(), tuple(range(100 * k, 100 * k + branches)), tokens, 0, True, request)
        for k in range(requests)
    ]


def plain(engine: RemoteEngine, url: str, work: list[Completion]) -> Score:
    dialect = engine._runner.connection.dialect  # pyright: ignore[reportPrivateUsage]
    path = dialect.encode(work[0])[0]
    return asyncio.run(ask(url, path, [dialect.encode(each)[1] for each in work]))


def ours(engine: RemoteEngine, work: list[Completion]) -> Score:
    stop = Stop(max_tokens=work[0].max_tokens, ignore_eog=True)
    begun, first = time.perf_counter(), 0.0
    generations = [
        engine.submit(
            Request(each.ids, n=each.n, sampling=Sampling(seed=each.seeds[0]), stop=stop, add_bos=False)
        )
        for each in work
    ]
    for generation in generations:
        generation.wait(600)
    seconds = time.perf_counter() - begun
    tokens = sum(len(branch.ids) for generation in generations for branch in generation.branches)
    return Score(tokens, seconds, first)


def proxied(url: str, work: list[Completion]) -> Score:
    bodies = [
        {"prompt": each.ids, "n": each.n, "seed": list(each.seeds), "max_tokens": each.max_tokens,
         "ignore_eos": True, "stop": [], "after_any": []}
        for each in work
    ]  # fmt: skip
    return asyncio.run(ask(url, "/srb/v1/completions?sse=1&rich=1", bodies))


@contextlib.contextmanager
def proxy(url: str) -> Generator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "srbwriter", "--serve", "--connect", url, "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
            while client.get(f"{address}/health").status_code != 200:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def compare(name: str, rounds: int, sides: dict[str, Callable[[], Score]]) -> None:
    found: dict[str, list[float]] = {side: [] for side in sides}
    processor: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds + 1):  # the first warms up
        for side, write in sides.items():
            before = time.process_time()
            score = write()
            processor[side].append(1e6 * (time.process_time() - before) / score.tokens)
            found[side].append(score.speed)
    speeds = {side: median(each[1:]) for side, each in found.items()}
    ratios = {s: median(b / a for a, b in zip(found["plain"][1:], found[s][1:], strict=True)) for s in sides}
    remark = [
        f"{side} {speed:.0f} tok/s ({ratios[side]:.3f}; {median(processor[side][1:]):.0f} µs here a token)"
        for side, speed in speeds.items()
    ]
    print(f"{name}: {', '.join(remark)}", flush=True)


def pick_to_text(engine: RemoteEngine, rounds: int) -> None:
    """From the pick of a branch to the first text of the next ones."""
    times: list[float] = []
    remark = ""
    for k in range(rounds):
        prompt = tuple(engine.tokenize(f"Tale {k}. " + PROMPT * 12, add_bos=True))
        written = engine.submit(
            Request(prompt, n=8, stop=Stop(max_tokens=48, ignore_eog=True), add_bos=False)
        ).wait(600)
        branch = written.branches[3]
        before = metric(engine, "vllm:prefix_cache_hits_total")
        begun = time.perf_counter()
        runs = (TokenRun("", prompt), TokenRun(branch.text, branch.ids))
        following = engine.submit(Request(runs, n=8, stop=Stop(max_tokens=8, ignore_eog=True), add_bos=False))
        first = next(e for e in following.events(timeout=600) if type(e).__name__ == "Text")
        assert first
        times.append(time.perf_counter() - begun)
        following.wait(600)
        hits = metric(engine, "vllm:prefix_cache_hits_total") - before
        whole = (len(prompt) + len(branch.ids) - 1) // BLOCK * BLOCK
        if hits:
            remark = f"; their prefix cache found {hits:.0f} tokens, whole blocks are 8 × {whole}"
    print(f"pick to text: median {1000 * median(times):.0f} ms of {rounds}{remark}", flush=True)


def cancelled(engine: RemoteEngine) -> None:
    """Check that cancelled requests end on the server."""
    if metric(engine, "vllm:generation_tokens_total") == 0:
        return
    generation = engine.submit(Request(PROMPT, n=8, stop=Stop(max_tokens=1500, ignore_eog=True)))
    next(event for event in generation.events(timeout=600) if type(event).__name__ == "Text")
    assert metric(engine, "vllm:num_requests_running") == 8
    generation.cancel()
    generation.wait(60)
    begun = time.perf_counter()
    while metric(engine, "vllm:num_requests_running") and time.perf_counter() - begun < 30:
        time.sleep(0.02)
    seconds = time.perf_counter() - begun
    print(f"cancelled: nothing runs on their side any more after {seconds:.2f} s (to the end: 12 000 tokens)")


def killed_one_by_one(engine: RemoteEngine) -> None:
    """Of eight branches all but the last are killed, one after each forty of its tokens."""
    if metric(engine, "vllm:generation_tokens_total") == 0:
        return
    before = metric(engine, "vllm:generation_tokens_total")
    generation = engine.submit(Request(PROMPT * 40, n=8, stop=Stop(max_tokens=400, ignore_eog=True)))
    dead, shown = 0, [0] * 8
    for event in generation.events(timeout=600):
        if isinstance(event, Text):
            shown[event.branch] += len(event.ids)
            if dead < 7 and shown[7] >= 40 * (dead + 1):
                generation.branches[dead].kill()
                dead += 1
    while metric(engine, "vllm:num_requests_running"):
        time.sleep(0.02)
    wrote = metric(engine, "vllm:generation_tokens_total") - before
    print(f"killed one by one: {sum(shown)} tokens came of eight branches, {wrote:.0f} were written")


def rounds_of_eight(engine: RemoteEngine) -> None:
    """Rows that the server evaluates in twelve rounds of eight branches, each after a pick of the last."""
    for name, texts, kills in (
        ("one story", (PROMPT,), False),
        ("three of eight killed, one rolled again", (PROMPT,), True),
        ("two stories in turns", (PROMPT, "In the big city, a girl named Mia had a red ball. "), False),
    ):
        stories = [tuple(engine.tokenize(f"{name}. {text * 30}", add_bos=True)) for text in texts]
        before = engine.stats()
        for k in range(12):
            ids = stories[k % len(stories)]
            stop = Stop(max_tokens=64, ignore_eog=True)
            generation = engine.submit(Request(ids, n=8, stop=stop, add_bos=False))
            if kills:
                _kill_some(generation)
            generation.wait(600)
            stories[k % len(stories)] = ids + generation.branches[4 + k % 4].ids
        after = engine.stats()
        read = after.prompt_tokens - before.prompt_tokens - after.reused_tokens + before.reused_tokens
        shown = after.generated_tokens - before.generated_tokens
        print(f"twelve rounds of eight, {name}: {read} tokens read, {shown} shown", flush=True)


def _kill_some(generation: Generation) -> None:
    for _ in generation.events(timeout=600):
        if all(len(branch.text) > 20 for branch in generation.branches):
            break
    for branch in generation.branches[:3]:
        branch.kill()
    generation.branches[3].reroll()


def metric(engine: RemoteEngine, name: str) -> float:
    """The sum of vLLM's counters of that name; 0 where there are none."""
    url = engine._runner.connection.transport.url  # pyright: ignore[reportPrivateUsage]
    answer = httpx.get(f"{url}/metrics", timeout=30)
    lines = [line for line in answer.text.splitlines() if name in line and not line.startswith("#")]
    lines = [line for line in lines if "_created" not in line]
    return sum(float(re.split(r"\s+", line)[-1]) for line in lines) if answer.is_success else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--dialect", default="auto")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    options = RemoteOptions(arguments.url, dialect=arguments.dialect, max_branches=64)
    with RemoteEngine.connect(options) as engine, proxy(arguments.url) as address:
        print(engine.profile.lines()[0])
        many = min(8, engine.profile.many)  # one request a branch where they are not shared
        shapes = {"N = 8": (many, 8 // many)}
        if engine.profile.requests in (0, 64):
            shapes["64 concurrent"] = (1, 64)
        for name, (branches, requests) in shapes.items():
            work = asks(engine, PROMPT, branches, requests, arguments.tokens)
            compare(name, arguments.rounds, {
                "plain": lambda work=work: plain(engine, arguments.url, work),
                "ours": lambda work=work: ours(engine, work),
                "proxy": lambda work=work: proxied(address, work),
            })  # fmt: skip
        pick_to_text(engine, arguments.rounds)
        cancelled(engine)
        killed_one_by_one(engine)
        if engine.profile.dialect == "llamacpp":
            rounds_of_eight(engine)


if __name__ == "__main__":
    main()
