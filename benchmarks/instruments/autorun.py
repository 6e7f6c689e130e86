"""Writing on by itself: rows that are evaluated for a round beside its new tokens, and rounds a minute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from srbwriter.engine.types import Stop
from srbwriter.session import Session
from srbwriter.session.autorun import Autorun

from .ahead import OPENING, session

ORDERS, ROUNDS, N, TOKENS = ("first to end", "longest", "likeliest", "best scored"), 8, 8, 32
_LOOKS = 0.1  # seconds, as in the app


class Written(NamedTuple):
    """A round on average: rows that were evaluated, tokens that were written, and seconds."""

    rows: float
    tokens: float
    seconds: float


def run(model: Path) -> list[str]:
    found = {order: written(model, order) for order in ORDERS}
    return [
        f"{ROUNDS} rounds of {N} branches, {TOKENS} tokens each",
        "",
        "| picks | rows a round | tokens a round | rows beside the tokens | rounds a minute |",
        "|---|--:|--:|--:|--:|",
        *(
            f"| {order} | {one.rows:.0f} | {one.tokens:.0f} | {one.rows - one.tokens:.1f} "
            f"| {60 / one.seconds:.0f} |"
            for order, one in found.items()
        ),
        "",
        "autorun: "
        + "; ".join(
            f"{order} {one.rows - one.tokens:.1f} rows beside the new tokens, {60 / one.seconds:.0f} rounds "
            "a minute"
            for order, one in found.items()
        ),
    ]


def written(model: Path, order: str) -> Written:
    """Let a run write; the first round is written before, and reads the opening."""
    with session(model) as writer:
        writer.n, writer.stop = N, Stop(max_tokens=TOKENS, ignore_eog=True)
        writer.set_text(OPENING)
        following = Autorun.of(writer)
        run = following.begin(order, ROUNDS + 1)
        begun, rows, tokens = 0.0, 0, 0

        def pick(index: int, go_on: bool) -> None:
            nonlocal begun, rows, tokens
            if not begun:
                begun, rows = time.perf_counter(), _rows(writer)
            else:
                assert writer.round is not None
                tokens += sum(len(branch.ids) for branch in writer.round.branches)
            writer.pick(index, go_on=go_on and run.done < ROUNDS)

        while run.active:
            if not following.step(pick):
                time.sleep(_LOOKS)
        assert run.problem is None, run.problem
        seconds = time.perf_counter() - begun
        return Written((_rows(writer) - rows) / ROUNDS, tokens / ROUNDS, seconds / ROUNDS)


def _rows(writer: Session) -> int:
    stats = writer.engine.stats()  # type: ignore[union-attr]
    return stats.prompt_rows + stats.branch_rows
