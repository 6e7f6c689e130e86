"""``python -m benchmarks.engine [--model M] [--peers DIR]``: ratios from one run, as Markdown tables."""

from __future__ import annotations

import argparse
import datetime
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from srbwriter.demo import bundled_model
from srbwriter.engine import Engine

from . import memory, overhead, peers, pick, report, throughput
from .contestants import BareLoop, Contestant, EngineContestant, OneAfterAnother
from .setting import Setting, machine

COUNTS = (1, 4, 8, 16, 32)


def model_path(name: str) -> Path:
    """A file, ``bundled``, or a shape of :mod:`benchmarks.models`, made if need be."""
    if name == "bundled":
        return bundled_model()
    if Path(name).exists():
        return Path(name)
    from benchmarks.models import model_file

    return model_file(name)


def run_throughput(setting: Setting, args: argparse.Namespace) -> None:
    most = max(args.counts)
    with ExitStack() as stack:
        engine = stack.enter_context(Engine.load(setting.model, setting.options()))
        contestants: list[Contestant] = [EngineContestant(setting, engine)]
        for maker in _others(setting, args, engine, most):
            contestant = maker()
            contestants.append(contestant)
            if close := getattr(contestant, "close", None):
                stack.callback(close)
        if args.crowded:
            roomy = stack.enter_context(Engine.load(setting.model, replace(setting.options(), n_ctx=None)))
            contestants.append(EngineContestant(setting, roomy, crowd=True))
        results = list(throughput.rounds(contestants, args.counts, args.rounds))
    print(report.throughput(results, [contestant.name for contestant in contestants]))


def _others(
    setting: Setting, args: argparse.Namespace, engine: Engine, most: int
) -> list[Callable[[], Contestant]]:
    """Makers of everyone the engine is measured against."""
    makers: list[Callable[[], Contestant]] = [
        lambda: BareLoop(setting, engine, most),
        lambda: OneAfterAnother(setting, engine, args.sequential),
    ]
    if bench := peers.find(args.peers, "llama-batched-bench"):
        makers.append(lambda: peers.BatchedBench(setting, bench))
    if server := peers.find(args.peers, "llama-server"):
        makers.append(lambda: peers.Server(setting, engine, server, most))
    if args.peers and len(makers) == 2:
        raise SystemExit(f"{args.peers}: neither llama-batched-bench nor llama-server is there")
    return makers


def run_python(setting: Setting, args: argparse.Namespace) -> None:
    print(report.overhead([overhead.measure(setting, n, args.steps) for n in args.counts]))


def run_pick(setting: Setting, args: argparse.Namespace) -> None:
    n = min(8, max(args.counts))
    result = pick.measure(setting, args.story, n, args.rounds)
    print(report.pick(result, args.story, n))


def run_memory(setting: Setting, args: argparse.Namespace) -> None:
    print(report.memory(memory.measure(setting, args.requests)))


PARTS = {"throughput": run_throughput, "python": run_python, "pick": run_pick, "memory": run_memory}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--model", default="bundled", help="a file, or a shape such as 135m or 1.1b-q4_0")
    parser.add_argument("--peers", type=Path, help="folder with llama-batched-bench and llama-server")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    parser.add_argument("--counts", nargs="+", type=int, default=list(COUNTS), help="numbers of branches")
    parser.add_argument("--rounds", type=int, default=5, help="times everyone is measured")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=48, help="tokens of each branch")
    parser.add_argument("--threads", type=int, default=0, help="of everyone (0: what the engine takes)")
    parser.add_argument("--sequential", type=int, default=8, help="completions one after another, at most")
    parser.add_argument("--crowded", action="store_true", help="also with a cache full of prefixes")
    parser.add_argument("--steps", type=int, default=300, help="steps in which Python is timed")
    parser.add_argument("--story", type=int, default=8000, help="tokens of the story in which is picked")
    parser.add_argument("--requests", type=int, default=1000, help="requests for the look at memory")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    logging.basicConfig(level=logging.ERROR)  # a model stretched beyond its context length is all right here
    cells = max(4096, args.prompt + max(args.counts) * (args.tokens + 1))
    setting = Setting(model_path(args.model), args.prompt, args.tokens, cells, args.threads)
    print(
        f"{datetime.date.today()}, {machine()}, {setting.model.name}, {setting.thread_count} threads, "
        f"flash attention {'on' if setting.flash else 'off'}, {setting.prompt} + {setting.tokens} tokens, "
        f"{setting.cells} cells, {args.rounds} rounds"
    )
    for part in args.only:
        print(f"\n## {part}\n")
        PARTS[part](setting, args)


if __name__ == "__main__":
    main()
