"""``python -m benchmarks.engine [--peers DIR] [--model M]``: ratios from one run, as Markdown tables."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import admission, in_a_row, neighbours, parked, pick, report, screen
from .setting import Setting, model_path
from .throughput import Match

SPARE = 2048  # cells beside a prompt and its branches


@dataclass(frozen=True, slots=True)
class Table:
    """A model, and how much of it is measured: small models longer, as single steps of theirs vary more."""

    model: str
    prompt: int
    counts: tuple[int, ...]
    tokens: int
    rounds: int
    other_tokens: int

    @property
    def name(self) -> str:
        return f"{self.model}@{self.prompt}"


TABLES = (
    Table("135m-q4_0", 512, (1, 2, 4, 8, 16, 32), tokens=32, rounds=5, other_tokens=256),
    Table("135m-q8_0", 512, (1, 8, 32), tokens=24, rounds=3, other_tokens=256),
    Table("1.1b-q4_0", 512, (1, 8, 32), tokens=12, rounds=3, other_tokens=96),
    Table("135m-q4_0", 4096, (1, 8, 32), tokens=16, rounds=3, other_tokens=256),
)
SMALL, MIDDLE, WIDE = "bundled", "135m-q4_0", "wide-q4_0"


def _tables(args: argparse.Namespace) -> list[Table]:
    if args.model is None:
        tables = [table for table in TABLES if args.tables is None or table.name in args.tables]
    else:
        tables = [Table(args.model, 512, (1, 4, 8, 16, 32), tokens=48, rounds=5, other_tokens=256)]
    return [
        Table(
            t.model, args.prompt or t.prompt, tuple(args.counts or t.counts), args.tokens or t.tokens,
            args.rounds or t.rounds, args.other_tokens or t.other_tokens,
        )
        for t in tables
    ]  # fmt: skip


def run_throughput(args: argparse.Namespace) -> None:
    beside = args.beside or (["bare", "server"] if args.peers else ["bare"])
    for table in _tables(args):
        cells = max(4096, table.prompt + max(table.counts) * (table.tokens + 1) + SPARE)
        for kind in args.settings:
            setting = Setting(
                model_path(table.model, args.models), table.prompt, table.tokens, cells, args.threads,
                kind == "defaults",
            )  # fmt: skip
            for state in args.cache:
                lengths = f"{setting.prompt} + {setting.tokens} tokens"
                print(f"### {state} cache: {report.heading(setting, lengths)}", flush=True)
                match = Match(
                    setting, table.counts, table.rounds, beside, args.peers,
                    args.others if state == "used" else 0, table.other_tokens,
                )  # fmt: skip
                print(f"{report.throughput(list(match.results()))}\n", flush=True)


def _setting(args: argparse.Namespace, model: str, cells: int = 4096) -> Setting:
    """Return the model for the parts that measure one: the requested one, or ``model``."""
    path = model_path(args.model or model, args.models)
    setting = Setting(path, args.prompt or 128, args.tokens or 48, cells, args.threads)
    print(report.heading(setting))
    return setting


def _counts(args: argparse.Namespace) -> Sequence[int]:
    return args.counts or (1, 4, 8, 16, 32)


def run_pick(args: argparse.Namespace) -> None:
    n = min(8, max(_counts(args)))
    result = pick.measure(_setting(args, SMALL), args.story, n, args.rounds or 5)
    print(report.pick(result, args.story, n))


def run_parked(args: argparse.Namespace) -> None:
    setting = _setting(args, MIDDLE, args.parked + 4096)
    print(report.parked(*parked.speeds(setting, args.parked, args.counts or (1, 8), args.rounds or 5)))


def run_reopen(args: argparse.Namespace) -> None:
    result = parked.reopen(_setting(args, MIDDLE), args.story, args.rounds or 3)
    print(report.reopen(result, args.story))


def run_screen(args: argparse.Namespace) -> None:
    path = model_path(args.model or SMALL, args.models)
    setting = Setting(path, args.prompt or 512, cells=0, threads=args.threads)
    print(report.heading(setting))
    sizes = [(n, args.tokens) for n in args.counts] if args.counts and args.tokens else screen.GRIDS
    back = screen.going_back(
        setting, *((args.counts[0], args.tokens) if args.counts and args.tokens else (8, 200))
    )
    print(report.screens([*screen.grids(setting, sizes), back]))


def run_admission(args: argparse.Namespace) -> None:
    n = max(args.counts or (64,))
    result = admission.measure(_setting(args, SMALL), args.story, n, args.rounds or 3)
    print(report.admission(result, n, args.story))


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "throughput": run_throughput, "pick": run_pick, "parked": run_parked, "reopen": run_reopen,
    "screen": run_screen, "admission": run_admission, "in_a_row": in_a_row.run, "neighbours": neighbours.run,
}  # fmt: skip


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    parser.add_argument("--model", help="only this: a file, bundled, or a shape such as 135m or 1.1b-q4_0")
    parser.add_argument("--models", type=Path, help="folder of made models")
    parser.add_argument("--against", type=Path, help="another checkout, for in_a_row")
    parser.add_argument("--peers", type=Path, help="folder with llama.cpp's programs")
    group = parser.add_argument_group("throughput")
    group.add_argument("--tables", nargs="+", choices=[t.name for t in TABLES], help="only these")
    group.add_argument("--settings", nargs="+", choices=("equal", "defaults"), default=["equal", "defaults"])
    group.add_argument("--cache", nargs="+", choices=("empty", "used"), default=["empty", "used"])
    group.add_argument("--beside", nargs="+", choices=("bare", "server"))
    group.add_argument("--others", type=int, default=20, help="other prompts before, in a used cache")
    group.add_argument("--other-tokens", type=int, help="tokens of each of them")
    group = parser.add_argument_group("sizes; each part has its own")
    group.add_argument("--counts", nargs="+", type=int, help="numbers of branches")
    group.add_argument("--rounds", type=int, help="times everyone is measured")
    group.add_argument("--prompt", type=int, help="tokens of the prompt")
    group.add_argument("--tokens", type=int, help="tokens of each branch")
    group.add_argument("--threads", type=int, default=0, help="of everyone (0: all cores)")
    group.add_argument("--story", type=int, default=8000, help="tokens of the story in pick and reopen")
    group.add_argument("--parked", type=int, default=9000, help="tokens of parked text")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    logging.basicConfig(level=logging.ERROR)  # a model stretched beyond its context length is all right here
    for part in args.only:
        print(f"## {part}\n")
        PARTS[part](args)
        print(flush=True)


if __name__ == "__main__":
    main()
