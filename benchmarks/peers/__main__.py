"""The same work through several programs: ``python -m benchmarks.peers [--programs DIR]``.

A story is opened and n branches are written; one is picked and n more are written from there. Each program
runs in a process of its own and gets the same token ids; they take turns. Per program and n the table has:
tokens of the opening that were evaluated, the time until every branch had a token, and tokens per second;
the same three figures after the pick; and the most memory so far. Beside a speed stands its ratio to that of
llama-server, the median of the rounds' ratios. srbwriter runs with an empty HOME, with one that a run with
odd options has used, and, with ``--against``, as another checkout of it. ``--busy 1`` lets another program
keep a core busy meanwhile. With ``--rest 3`` the writer reads for three seconds before the pick.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

from benchmarks.engine.report import heading
from benchmarks.engine.setting import TEXT, Setting, model_path

from .servers import HERE, CompletionServer, Server, Written, program, start_srbwriter

ODD = ("--threads", "1", "--flash-attn", "on", "--ubatch-size", "32")
PROGRAMS = ("srbwriter", "used", "against", "llama-server")


def used_home(setting: Setting) -> Path:
    """Make a HOME in which srbwriter has run with unusual options, which must not affect later runs."""
    home = Path(tempfile.mkdtemp(prefix="used-"))
    own = Setting(setting.model, setting.prompt, setting.tokens, setting.cells, defaults=True)
    with closing(start_srbwriter(own, "srbwriter", home, *ODD)) as odd:
        odd.write(odd.tokenize(TEXT), 4, 16, 1)
    return home


def start(setting: Setting, args: argparse.Namespace, stack: ExitStack) -> Iterator[CompletionServer]:
    """Start all programs that are wanted and at hand."""
    wanted: Sequence[str] = args.only
    home = Path(tempfile.mkdtemp(prefix="clean-"))
    yield stack.enter_context(closing(start_srbwriter(setting, "srbwriter", home)))
    if "used" in wanted:
        home = used_home(setting)
        yield stack.enter_context(closing(start_srbwriter(setting, "srbwriter, used HOME", home)))
    if "against" in wanted and args.against is not None:
        name, checkout = f"srbwriter, {args.against.name}", args.against.resolve()
        yield stack.enter_context(closing(start_srbwriter(setting, name, home, checkout=checkout)))
    if "llama-server" in wanted and args.programs is not None:
        binary = program(args.programs, "llama-server")
        yield stack.enter_context(closing(Server(setting, binary, max(4, *args.counts))))


class BusyProgram:
    """Another program that keeps a core busy."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def play(
    peer: CompletionServer, opening: list[int], n: int, setting: Setting, seed: int, rest: float
) -> tuple[Written, Written]:
    """Open a story, read for ``rest`` seconds, pick one branch, write on."""
    first = peer.write(opening, n, setting.tokens, seed)
    time.sleep(rest)
    picked = first.ids[n // 2]
    return first, peer.write([*opening, *picked], n, setting.tokens, seed + 1)


def rows(
    peers: Sequence[CompletionServer], setting: Setting, args: argparse.Namespace
) -> Iterator[list[str]]:
    """A row for each number of branches and program, once all rounds of it have been played."""
    ours = peers[0]
    # No text twice: models repeat what is repeated, and branches that are alike share rows.
    prose = "".join(file.read_text("utf-8") for file in sorted((HERE / "sample_prompts").glob("*.txt")))
    for n in args.counts:
        played: dict[str, list[tuple[Written, Written]]] = {peer.name: [] for peer in peers}
        for number in range(args.rounds):
            salt = f"Tale {n}, {number}. "  # a text that no contestant has evaluated
            opening = ours.tokenize(salt + prose)[: setting.prompt]
            for peer in peers[:: -1 if number % 2 else 1]:
                played[peer.name].append(play(peer, opening, n, setting, number + 1, args.rest))
        for peer in peers:
            cells = [str(n), peer.name]
            for written, theirs in zip(zip(*played[peer.name], strict=True), _theirs(played), strict=True):
                cells += [
                    f"{median(w.evaluated for w in written):.0f}",
                    f"{1e3 * median(w.first for w in written):.0f}", _speed(written, theirs),
                ]  # fmt: skip
            yield [*cells, f"{peer.memory:.0f}" if peer.memory else ""]


def _theirs(played: Mapping[str, Sequence[tuple[Written, Written]]]) -> Sequence[Sequence[Written]]:
    """Return what llama-server wrote in each round: of new stories, and after picks."""
    return tuple(zip(*played.get("llama-server", ()), strict=True)) or ((), ())


def _speed(ours: Sequence[Written], theirs: Sequence[Written]) -> str:
    """Tokens per second, and the median of the rounds' ratios to ``theirs`` with its range."""
    speed = f"{median(written.speed for written in ours):.1f}"
    ratios = sorted(a.speed / b.speed for a, b in zip(ours, theirs, strict=False))
    return f"{speed} × {median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})" if ratios else speed


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--model", default="bundled", help="a file, bundled, or a shape such as 135m-q4_0")
    parser.add_argument("--models", type=Path, help="folder of made models")
    parser.add_argument("--programs", type=Path, help="folder with llama-server")
    parser.add_argument("--against", type=Path, help="another checkout of srbwriter")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=PROGRAMS, help="beside srbwriter")
    parser.add_argument("--busy", type=int, default=0, help="programs that keep a core busy each meanwhile")
    parser.add_argument("--rest", type=float, default=0.0, help="seconds between a round and the pick")
    parser.add_argument("--settings", nargs="+", choices=("equal", "defaults"), default=["equal", "defaults"])
    parser.add_argument("--threads", type=int, default=0, help="of everyone, at equal settings")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32], help="branches")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the opening")
    parser.add_argument("--tokens", type=int, default=48, help="tokens of each branch")
    parser.add_argument("--cells", type=int, default=8192, help="context size of everyone")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    model = model_path(args.model, args.models)
    head = [
        "n", "program", "tokens evaluated, new story", "first token in every branch, ms",
        "tok/s × llama-server's", "evaluated after a pick", "pick → text in every branch, ms",
        "tok/s × llama-server's", "memory, MiB",
    ]  # fmt: skip
    for kind in args.settings:
        setting = Setting(model, args.prompt, args.tokens, args.cells, args.threads, kind == "defaults")
        with ExitStack() as stack:
            everybody = list(start(setting, args, stack))
            for _ in range(args.busy):
                stack.enter_context(closing(BusyProgram()))
            busy = f"beside {args.busy} busy programs" if args.busy else ""
            print(heading(setting, f"{args.prompt} + {args.tokens} tokens, {args.rounds} rounds", busy))
            for line in (head, ["--:"] * len(head)):
                print(f"| {' | '.join(line)} |", flush=True)
            for row in rows(everybody, setting, args):  # each takes a minute or more
                print(f"| {' | '.join(row)} |", flush=True)
            print()


if __name__ == "__main__":
    main()
