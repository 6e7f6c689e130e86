"""A writer's session beside llama-server: ``python -m benchmarks.session [--peers DIR]``.

A story grows by rounds. In each, every branch is written, one is picked, sometimes a few words are typed, and
the next round begins from there; every fourth goes back to an older place and another branch of it. The
engine does it as a library, llama-server over HTTP with the same token ids, round by round in turns. Between
rounds the writer reads: the engine's work meanwhile is reported separately. Aims: nothing evaluated beyond
typed words (and the last token of each branch, while the engine is idle), text in every branch three times
sooner, a total no longer than theirs.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.engine import peers
from benchmarks.engine.report import heading, table
from benchmarks.engine.setting import Setting, model_path, story_ids
from benchmarks.engine.sides import EngineSide, Played, Script, ServerSide, Side, alternate
from srbwriter.engine import Engine


def report(played: dict[str, list[Played]]) -> str:
    """A row for each side; the opening, which both sides evaluate, counts in the total only."""
    head = [
        "", "tokens typed", "evaluated after a pick", "and while nobody waited", "text in every branch, ms",
        "slowest, ms", "written in, s", "processor time, s", "while nobody waited, s",
    ]  # fmt: skip
    rows: list[list[str]] = []
    for name, rounds in played.items():
        after = rounds[1:]
        waits = [p.round.first for p in after]
        rows.append([
            name, str(sum(p.typed for p in after)), str(sum(p.round.evaluated for p in after)),
            str(sum(p.later for p in after)), f"{1e3 * median(waits):.0f}", f"{1e3 * max(waits):.0f}",
            f"{_total(rounds):.2f}", f"{sum(p.round.busy for p in rounds):.2f}",
            f"{sum(p.resting for p in rounds):.2f}",
        ])  # fmt: skip
    return table(head, rows)


def ratios(played: dict[str, list[Played]]) -> str:
    """The last line: medians over rounds of one side's time in terms of the other's."""
    ours, *others = played.values()
    line = f"evaluated beyond what was typed: {_beyond(ours)}"
    for theirs in others:
        sooner = median(b.round.first / a.round.first for a, b in zip(ours[1:], theirs[1:], strict=True))
        total = _total(ours) / _total(theirs)
        resting = (_total(ours) + sum(p.resting for p in ours)) / _total(theirs)
        line += (
            f" (aim 0), theirs {_beyond(theirs)}; text {sooner:.1f} times sooner (aim 3); "
            f"total {total:.2f} of theirs (aim 1), {resting:.2f} with what is done while nobody waits"
        )
    return line


def _beyond(rounds: Sequence[Played]) -> int:
    return sum(p.round.evaluated - p.typed for p in rounds[1:])


def _total(rounds: Sequence[Played]) -> float:
    return sum(p.round.seconds for p in rounds)


def run(setting: Setting, rests: bool, args: argparse.Namespace) -> None:
    picks = "picked when the engine rests" if rests else "picked the moment all have ended"
    print(heading(setting, f"{args.rounds} rounds of {args.branches} x {args.tokens} tokens", picks))
    with ExitStack() as stack:
        engine = stack.enter_context(Engine.load(setting.model, setting.options()))
        sides: list[Side] = [EngineSide(setting, engine)]
        if args.peers is not None:
            program = peers.program(args.peers, "llama-server")
            server = peers.Server(setting, program, max(4, args.branches))
            stack.callback(server.close)
            sides.append(ServerSide(server))
        words = story_ids(engine, args.typed, "She wrote: ")
        script = Script(story_ids(engine, args.prompt), words, args.rounds, args.branches, args.tokens, rests)
        played = alternate(script, sides)
    print(report(played))
    print(f"\n{ratios(played)}\n", flush=True)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.session", description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="135m-q4_0", help="a file, bundled, or a shape such as 135m")
    parser.add_argument("--models", type=Path, help="folder of made models")
    parser.add_argument("--peers", type=Path, help="folder with llama-server")
    parser.add_argument("--settings", nargs="+", choices=("equal", "defaults"), default=["equal", "defaults"])
    parser.add_argument("--threads", type=int, default=0, help="of everyone, at equal settings")
    parser.add_argument("--cells", type=int, default=8192, help="context size of everyone")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--branches", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each branch")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the opening")
    parser.add_argument("--typed", type=int, default=6, help="tokens typed in every third round")
    parser.add_argument(
        "--picks", nargs="+", choices=("rested", "at-once"), default=["rested", "at-once"],
        help="after what is done while nobody waits, or the moment all have ended",
    )  # fmt: skip
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    logging.basicConfig(level=logging.ERROR)
    model = model_path(args.model, args.models)
    for kind in args.settings:
        setting = Setting(model, args.prompt, args.tokens, args.cells, args.threads, kind == "defaults")
        for picks in args.picks:
            run(setting, picks == "rested", args)


if __name__ == "__main__":
    main()
