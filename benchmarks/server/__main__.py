"""``python -m benchmarks.server [--model M] [--peers DIR]``: figures from one run, as Markdown tables.

``stream``: 64 clients stream at once, with prompts of all lengths; their tokens a second are compared with
the engine used directly, in turns, in the same process and on the same model. Others: see :mod:`.meanwhile`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine.setting import Setting, load_average, machine, model_path, story_ids
from benchmarks.peers.servers import Server, program
from srbwriter.engine import Engine
from srbwriter.engine.types import Request, Stop

from . import crowd
from .meanwhile import fair, kept, served

SAMPLERS = ["top_k", "top_p", "min_p", "temperature"]


def bodies(engine: Engine, clients: int, tokens: int, longest: int, salt: str) -> list[dict[str, Any]]:
    """One request a client; a quarter share the beginning of their prompt, as branches of a story do.

    Another ``salt`` makes other prompts.
    """
    rng = random.Random(1)
    story = story_ids(engine, longest, salt)
    made: list[dict[str, Any]] = []
    for number in range(clients):
        tale = [] if number % 4 == 0 else engine.tokenize(f"Tale {number}. ")
        prompt = tale + story[: rng.randrange(4, longest - len(tale))]
        made.append({
            "prompt": prompt, "n_predict": tokens, "seed": number, "ignore_eos": True, "samplers": SAMPLERS,
            "cache_prompt": True,
        })  # fmt: skip
    return made


def directly(engine: Engine, setting: Setting, requests: Sequence[dict[str, Any]]) -> float:
    """Tokens a second of the same work without a server."""
    sampling = replace(setting.sampling, samplers=tuple(SAMPLERS))
    begun = time.perf_counter()
    generations = [
        engine.submit(
            Request(
                body["prompt"], sampling=replace(sampling, seed=body["seed"]),
                stop=Stop(max_tokens=body["n_predict"], ignore_eog=True),
            )
        )
        for body in requests
    ]  # fmt: skip
    tokens = sum(len(generation.wait().branches[0].ids) for generation in generations)
    return tokens / (time.perf_counter() - begun)


def stream(setting: Setting, args: argparse.Namespace) -> None:
    """Aggregate speed and latency of many streaming clients."""
    engine = Engine.load(setting.model, setting.options())
    sizes = args.clients, args.tokens, setting.prompt
    direct: list[float] = []
    outcomes: list[crowd.Outcome] = []
    theirs: list[crowd.Outcome] = []
    with engine, served(engine) as url, _peer(setting, args) as peer:
        directly(engine, setting, bodies(engine, *sizes, "Before. "))  # the cache is never empty
        for number in range(args.rounds):
            direct.append(directly(engine, setting, bodies(engine, *sizes, f"Round {number}. ")))
            requests = bodies(engine, *sizes, f"{number} over HTTP. ")
            outcomes.append(crowd.run(crowd.Job(url, requests)))
            if peer is not None:
                theirs.append(crowd.run(crowd.Job(peer, requests)))
    rows = [("engine, directly", direct, None), ("srbwriter over HTTP", _speeds(outcomes), outcomes)]
    if theirs:
        rows.append(("llama-server", _speeds(theirs), theirs))
    print(f"\n{args.clients} clients, {args.tokens} tokens each, prompts of 4 to {setting.prompt} tokens\n")
    print("| | tok/s | of the engine | first token p50 / p99 | between tokens p50 / p99 |")
    print("|---|---|---|---|---|")
    for name, speeds, seen in rows:
        ratio = statistics.median(speed / base for speed, base in zip(speeds, direct, strict=True))
        first = _quantiles([t for o in seen for t in o.first]) if seen else "–"
        gaps = _quantiles([t for o in seen for t in o.gaps]) if seen else "–"
        print(f"| {name} | {statistics.median(speeds):.0f} | {ratio:.2f} | {first} | {gaps} |")


def _speeds(outcomes: Sequence[crowd.Outcome]) -> list[float]:
    return [outcome.tokens / outcome.seconds for outcome in outcomes]


def _quantiles(seconds: Sequence[float]) -> str:
    low, high = np.quantile(seconds, (0.5, 0.99)) * 1000
    return f"{low:.0f} / {high:.0f} ms"


@contextmanager
def _peer(setting: Setting, args: argparse.Namespace) -> Iterator[str | None]:
    """Start llama.cpp's own server with as many slots, if it is available."""
    if args.peers is None:
        yield None
        return
    server = Server(setting, program(args.peers, "llama-server"), args.clients)
    try:
        yield server.address
    finally:
        server.close()


PARTS: dict[str, Callable[[Setting, argparse.Namespace], None]] = {
    "stream": stream, "fair": fair, "kept": kept
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__)
    parser.add_argument("--model", default="bundled", help="a file, bundled, or a shape such as 135m")
    parser.add_argument("--peers", type=Path, help="folder with llama-server")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this; may be given twice")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=96, help="tokens of the longest prompt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=240, help="tokens of each branch of the others in fair")
    parser.add_argument("--tries", type=int, default=8, help="small requests in fair")
    parser.add_argument("--cells", type=int, default=16_384, help="cells of the cache in fair")
    parser.add_argument("--turns", type=int, default=40, help="requests in kept")
    args = parser.parse_args()
    cells = 2 * args.clients * (args.prompt + args.tokens)
    setting = Setting(model_path(args.model), prompt=args.prompt, tokens=args.tokens, cells=cells)
    print(f"{machine()}, {setting.model.name}, {setting.thread_count} threads, {load_average()}")
    for name in args.part or PARTS:
        PARTS[name](setting, args)


if __name__ == "__main__":
    main()
