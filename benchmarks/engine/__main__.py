"""``python -m benchmarks.engine [--only PART …] [--model M]``: figures from one run, as Markdown tables."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from . import admission, in_a_row, neighbours, parked, pick, screen

PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "pick": pick.run, "parked": parked.run, "reopen": parked.reopen,
    "screen": screen.run, "admission": admission.run, "in_a_row": in_a_row.run, "neighbours": neighbours.run,
}  # fmt: skip


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    parser.add_argument("--model", help="only this: a file, bundled, or a shape such as 135m or 1.1b-q4_0")
    parser.add_argument("--models", type=Path, help="folder of made models")
    parser.add_argument("--against", type=Path, help="another checkout, for in_a_row")
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
