"""How many branches are what a bare loop over llama.cpp writes, and how far their log-probabilities are off?

For toys of each kind of memory; each round has 96 branches of 24 tokens of each. A difference in the last
digits of a logit (rows in another order) can decide a draw: such a branch is counted as other.
"""

from __future__ import annotations

import argparse
from contextlib import closing

from srbwriter.engine.engine import Engine
from tests.engine.bare import BareLoop
from tests.engine.support import toy_model
from tests.engine.test_bare import KINDS, OPTIONS, branches_of, compare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    for kind, make in KINDS.items():
        path = toy_model(make)
        with Engine.load(path, OPTIONS) as engine, closing(BareLoop(path)) as bare:
            found = [
                compare(bare, branch)
                for seed in range(arguments.rounds)
                for branch in branches_of(engine, 1 + 1000 * seed)
            ]
        equal, errors, counts = zip(*found, strict=True)
        print(
            f"{kind}: {sum(equal)} of {len(found)} branches equal, "
            f"{sum(counts)} log-probabilities, off by {max(errors):.1e} at most",
            flush=True,
        )


if __name__ == "__main__":
    main()
