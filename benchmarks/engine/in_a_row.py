"""Requests in a row on a simulated GPU: stepped by hand, on the engine's thread, and over HTTP.

With ``--against DIR`` this checkout and another one are measured in turns, each in a process of its own. All
requests continue one cached prompt, each begins when the one before has ended, and the first is not counted:
what the engine does with its text falls to the second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parents[2]
PROMPT, CELLS = 512, 12288
REQUESTS = 16  # in a row
SAMPLERS = ("top_k", "top_p", "min_p", "temperature")

if TYPE_CHECKING:
    from srbwriter.engine import Engine
    from srbwriter.engine.generation import Generation


def measure(model: str, name: str, n: int, tokens: int, requests: int) -> dict[str, Any]:
    """Return tokens a second of each way, and the milliseconds to the first text of each later request."""
    from benchmarks.device import DEVICES, device_options, simulated
    from benchmarks.engine.setting import story_ids
    from benchmarks.server.meanwhile import served
    from srbwriter.engine import Engine

    with simulated(DEVICES[name]):
        with Engine.load(model, device_options(CELLS), thread=False) as engine:
            stepped = _step_by_hand(engine, story_ids(engine, PROMPT), n, tokens)
        with Engine.load(model, device_options(CELLS)) as engine:
            own, own_first = _on_its_thread(engine, story_ids(engine, PROMPT), n, tokens, requests)
            saved = engine.stats().saved_tokens
        with Engine.load(model, device_options(CELLS)) as engine, served(engine, max_n=64) as url:
            http, http_first = _over_http(url, story_ids(engine, PROMPT), n, tokens, requests)
    return {
        "stepped": stepped, "own": own, "http": http, "own_first": own_first, "http_first": http_first,
        "saved": saved,
    }  # fmt: skip


def _ask(engine: Engine, prompt: list[int], n: int, tokens: int, seed: int) -> Generation:
    from srbwriter.engine.types import Request, Sampling, Stop

    sampling = Sampling(samplers=SAMPLERS, seed=seed)
    return engine.submit(
        Request(prompt, n=n, sampling=sampling, stop=Stop(max_tokens=tokens, ignore_eog=True))
    )


def _step_by_hand(engine: Engine, prompt: list[int], n: int, tokens: int) -> float:
    """Return the tokens a second of steps in which all branches write."""
    generation = _ask(engine, prompt, n, tokens + 32, 1)
    while any(len(branch.buffer.ids) < 16 for branch in generation.branches):
        engine.process()
    begun = time.perf_counter()
    for _ in range(tokens):
        engine.process()
    return n * tokens / (time.perf_counter() - begun)


def _on_its_thread(
    engine: Engine, prompt: list[int], n: int, tokens: int, requests: int
) -> tuple[float, list[float]]:
    from benchmarks.engine.asking import FirstText

    firsts: list[float] = []
    _ask(engine, prompt, n, tokens, 1).wait()
    begun = time.perf_counter()
    for number in range(1, requests):
        sent = time.perf_counter()
        generation = _ask(engine, prompt, n, tokens, number + 1)
        first = FirstText(generation, 1)
        generation.wait()
        firsts.append((first.at - sent) * 1e3)
    return n * tokens * (requests - 1) / (time.perf_counter() - begun), firsts


def _over_http(url: str, prompt: list[int], n: int, tokens: int, requests: int) -> tuple[float, list[float]]:
    from benchmarks.server import crowd

    common = {"prompt": prompt, "n": n, "n_predict": tokens, "ignore_eos": True, "samplers": SAMPLERS}
    bodies = [{**common, "seed": seed} for seed in range(1, requests + 1)]
    crowd.run(crowd.Job(url, bodies[:1]))
    outcome = crowd.run(crowd.Job(url, bodies[1:], width=1))
    assert outcome.answered == requests - 1
    return outcome.tokens / outcome.seconds, [first * 1e3 for first in outcome.first]


def _in_process(checkout: Path, *job: Any) -> dict[str, Any]:
    """Return what a fresh process with the engine of ``checkout`` measures; the benchmark is this one."""
    code = (
        f"import sys; sys.path.insert(0, {str(checkout)!r}); import srbwriter; "
        f"sys.path[0] = {str(HERE)!r}; from benchmarks.engine.in_a_row import measure; import json; "
        f"print(json.dumps(measure(*json.loads(sys.argv[1]))))"
    )
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-c", code, json.dumps(job)]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run(args: argparse.Namespace) -> None:
    from benchmarks.device import DEVICES
    from benchmarks.models import model_file

    sides = {"here": HERE} | ({"there": args.against.resolve()} if args.against else {})
    print("| device | n | | stepped, tok/s | own thread (aim: 0.95 of it) | HTTP (aim: 0.85) |", end="")
    print(" first text, own thread, ms: median / most | over HTTP (aim: ≤ 15) | tokens copied |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|")
    for name, device in DEVICES.items():
        model = str(model_file(device.model, args.models))
        for n in args.counts or (8, 32):
            seen: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
            for _ in range(args.rounds or 3):
                for side, checkout in sides.items():
                    seen[side].append(_in_process(checkout, model, name, n, args.tokens or 128, REQUESTS))
            for side, results in seen.items():
                print(f"| {name} | {n} | {side} | {_row(results)} |", flush=True)


def _row(results: Sequence[dict[str, Any]]) -> str:
    """Return medians of the rounds; a ratio is the median of the rounds' ratios."""
    cells = [f"{median(r['stepped'] for r in results):.0f}"]
    for way in ("own", "http"):
        ratio = median(r[way] / r["stepped"] for r in results)
        cells.append(f"{median(r[way] for r in results):.0f} ({ratio:.2f})")
    for way in ("own_first", "http_first"):
        firsts = [first for r in results for first in r[way]]
        cells.append(f"{median(firsts):.1f} / {max(firsts):.1f}")
    return " | ".join([*cells, f"{median(r['saved'] for r in results):.0f}"])
