"""``python -m benchmarks.instruments [--part PART …]``: each part prints tables, and its figure last.

A part is a module of this package with ``run(model) -> list[str]``, the lines to print.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from srbwriter.demo import bundled_model

PARTS = ("ahead", "bans")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instruments", description=__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--model", type=Path, default=None, help="a model file; the bundled one by default")
    arguments = parser.parse_args()
    for part in arguments.part:
        print(f"## {part}\n", flush=True)
        lines = import_module(f"benchmarks.instruments.{part}").run(arguments.model or bundled_model())
        print("\n".join(lines), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
