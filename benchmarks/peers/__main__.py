"""The same work through several programs: ``python -m benchmarks.peers [--programs DIR] [--vllm URL]``.

A story is opened and n branches are written; one is picked and n more are written from there. Each program
runs in a process of its own and gets the same token ids; they take turns. Per program and n the table has:
tokens of the opening that were evaluated and the time until every branch had a token; tokens per second;
the same two figures after the pick; and the most memory so far. srbwriter runs with an empty HOME, and with
one that a run with odd options has used.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

from benchmarks.engine import peers
from benchmarks.engine.report import heading
from benchmarks.engine.setting import TEXT, Setting, model_path

from .sides import LlamaServer, OneByOne, Peer, Srbwriter, Vllm, Written

ODD = ("--threads", "1", "--flash-attn", "on", "--ubatch-size", "32")


def used_home(setting: Setting) -> Path:
    """Make a HOME in which srbwriter has run with unusual options, which must not affect later runs."""
    home = Path(tempfile.mkdtemp(prefix="used-"))
    own = Setting(setting.model, setting.prompt, setting.tokens, setting.cells, defaults=True)
    with closing(Srbwriter(own, home, "srbwriter", *ODD)) as odd:
        odd.write(odd.tokenize(TEXT), 4, 16, 1)
    return home


def started(setting: Setting, args: argparse.Namespace, stack: ExitStack) -> Iterator[Peer]:
    """All programs that are at hand, each up."""
    homes = {"srbwriter": Path(tempfile.mkdtemp(prefix="clean-")), "srbwriter, used HOME": used_home(setting)}
    for name, home in homes.items():
        yield stack.enter_context(closing(Srbwriter(setting, home, name)))
    yield stack.enter_context(closing(OneByOne(setting)))
    if args.programs is not None:
        program = peers.program(args.programs, "llama-server")
        yield stack.enter_context(closing(LlamaServer(setting, program, max(4, *args.counts))))
    if args.vllm:
        yield stack.enter_context(closing(Vllm(setting, args.vllm)))


def play(peer: Peer, opening: list[int], n: int, setting: Setting, seed: int) -> tuple[Written, Written]:
    """Open a story, pick one branch, write on."""
    first = peer.write(opening, n, setting.tokens, seed)
    picked = first.ids[n // 2]
    return first, peer.write([*opening, *picked], n, setting.tokens, seed + 1)


def rows(peers: Sequence[Peer], setting: Setting, args: argparse.Namespace) -> Iterator[list[str]]:
    """A row for each number of branches and program, once all rounds of it have been played."""
    ours = peers[0]
    assert isinstance(ours, Srbwriter)
    for n in args.counts:
        played: dict[str, list[tuple[Written, Written]]] = {peer.name: [] for peer in peers}
        for number in range(args.rounds):
            salt = f"Tale {n}, {number}. "  # a text that no contestant has evaluated
            opening = ours.tokenize(salt + TEXT * (2 + setting.prompt // 60))[: setting.prompt]
            for peer in peers[:: -1 if number % 2 else 1]:
                played[peer.name].append(play(peer, opening, n, setting, number + 1))
        for peer in peers:
            first, after = zip(*played[peer.name], strict=True)
            yield [
                str(n), peer.name, f"{median(w.evaluated for w in first):.0f}",
                f"{1e3 * median(w.first for w in first):.0f}", f"{median(w.speed for w in after):.1f}",
                f"{median(w.evaluated for w in after):.0f}", f"{1e3 * median(w.first for w in after):.0f}",
                f"{peer.memory:.0f}" if peer.memory else "",
            ]  # fmt: skip


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--model", default="bundled", help="a file, bundled, or a shape such as 135m-q4_0")
    parser.add_argument("--models", type=Path, help="folder of made models")
    parser.add_argument("--programs", type=Path, help="folder with llama-server")
    parser.add_argument("--vllm", default="", help="address of a vLLM that serves the same model")
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
        "n", "program", "tokens evaluated, new story", "first token in every branch, ms", "tok/s",
        "evaluated after a pick", "pick → text in every branch, ms", "memory, MiB",
    ]  # fmt: skip
    for kind in args.settings:
        setting = Setting(model, args.prompt, args.tokens, args.cells, args.threads, kind == "defaults")
        with ExitStack() as stack:
            everybody = list(started(setting, args, stack))
            print(heading(setting, f"{args.prompt} + {args.tokens} tokens, {args.rounds} rounds"))
            for line in (head, ["--:"] * len(head)):
                print(f"| {' | '.join(line)} |", flush=True)
            for row in rows(everybody, setting, args):  # each takes a minute or more
                print(f"| {' | '.join(row)} |", flush=True)
            print()


if __name__ == "__main__":
    main()
