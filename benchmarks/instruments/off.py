"""What the engine lost by the instruments while none of them is used: this tree beside the one before them.

To be run in a clone that has that commit: ``python -m benchmarks.instruments --part off``. The other side is
a work tree of it, made for the time it takes; each side has a process of its own, and they write in turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

BEFORE = "e824550"
COUNTS = (1, 8)
TOKENS, ROUNDS = 192, 25
HERE = Path(__file__).parent.parent.parent

_CHILD = """
import json, sys, time
from srbwriter.engine import Engine
from srbwriter.engine.types import EngineOptions, Request, Sampling, Stop
engine = Engine.load(sys.argv[1], EngineOptions(n_ctx=2048, seed=1, threads=1))
for line in sys.stdin:
    n, tokens, seed = json.loads(line)
    stop = Stop(tokens, ignore_eog=True)
    request = Request("Once upon a time", n=n, sampling=Sampling(seed=seed), stop=stop)
    began, worked = time.perf_counter(), time.process_time()
    engine.submit(request).wait(600)
    took = time.perf_counter() - began, time.process_time() - worked
    print(json.dumps([n * tokens / seconds for seconds in took]), flush=True)
engine.close()
"""


def run(model: Path) -> list[str]:
    with _tree() as before, _side(before, model) as other, _side(HERE, model) as here:
        found = {n: _rounds(other, here, n) for n in COUNTS}
    speed = min(median(ratios) for ratios, _, _ in found.values())
    busy = min(median(ratios) for _, ratios, _ in found.values())
    best = min(ratio for _, _, ratio in found.values())
    return [
        f"This tree in terms of {BEFORE}, {ROUNDS} rounds in turns of n x {TOKENS} tokens, load "
        f"{os.getloadavg()[0]:.1f}",
        "",
        "| n | by the clock (aim >= 0.99) | lowest | highest | in processor time | best of each side |",
        "|---|---|---|---|---|---|",
        *(
            f"| {n} | {median(clock):.3f} | {min(clock):.3f} | {max(clock):.3f} | {median(work):.3f} "
            f"| {top:.3f} |"
            for n, (clock, work, top) in found.items()
        ),
        "",
        "Medians of the rounds' ratios; the last column compares the rounds of each side that took the least "
        "processor time, which other programs on the machine hardly change.",
        "",
        f"instruments off: {speed:.3f} of the speed before them by the clock, {busy:.3f} in processor time, "
        f"{best:.3f} of the best rounds",
    ]


@contextmanager
def _tree() -> Generator[Path]:
    """The commit before the instruments, in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / BEFORE
        git = ["git", "-C", str(HERE), "worktree"]
        try:
            subprocess.run(
                [*git, "add", "--detach", "-f", str(tree), BEFORE], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"commit {BEFORE} cannot be had: run this in a whole clone ({error})") from None
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=False, capture_output=True)


@contextmanager
def _side(tree: Path, model: Path) -> Generator[subprocess.Popen[str]]:
    """An engine of the sources in ``tree``."""
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(model)], cwd=tree, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(tree)},
    )  # fmt: skip
    with child:
        yield child
        assert child.stdin is not None
        child.stdin.close()


def _rounds(
    before: subprocess.Popen[str], here: subprocess.Popen[str], n: int
) -> tuple[list[float], list[float], float]:
    """Ratios, round by round, by the clock and in processor time; and that of the best rounds."""
    clock, busy = list[float](), list[float]()
    best = {before: 0.0, here: 0.0}
    for seed in range(ROUNDS + 1):
        sides = (before, here) if seed % 2 else (here, before)
        found = {side: _write(side, n, seed) for side in sides}
        if seed:  # the first pays for pages and graphs
            clock.append(found[here][0] / found[before][0])
            busy.append(found[here][1] / found[before][1])
            best = {side: max(best[side], found[side][1]) for side in best}
    return clock, busy, best[here] / best[before]


def _write(side: subprocess.Popen[str], n: int, seed: int) -> Sequence[float]:
    assert side.stdin is not None and side.stdout is not None
    side.stdin.write(json.dumps([n, TOKENS, seed]) + "\n")
    side.stdin.flush()
    return json.loads(side.stdout.readline())
