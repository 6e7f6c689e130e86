"""Token by token: rows that a fork evaluates, and how long a writer waits for it and for alternatives."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from types import SimpleNamespace

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import EngineOptions, Request, Sampling, Stop
from srbwriter.session.tokens import Alternative, Tokens, TokenText

PROMPT = "Once upon a time, there was a little fox who lived in the wood. "
_TOKENS, _PLACES, _WAIT = 64, 40, 60.0
_ALL_ROWS = EngineOptions(n_ctx=2048, gpu_layers=0, seed=1)


def run(model: Path) -> list[str]:
    """Forks a branch at many places, as the app does: look at a place, choose, fork."""
    with Engine.load(model, _ALL_ROWS) as engine:
        tokens = Tokens(SimpleNamespace(engine=engine))  # type: ignore[arg-type]
        stop = Stop(max_tokens=_TOKENS, ignore_eog=True)
        generation = engine.submit(Request(PROMPT * 8, n=4, sampling=Sampling(seed=1), stop=stop)).wait(_WAIT)
        text = tokens.of_branch(generation.branches[0])
        rows, looks, neighbours, forks = list[int](), list[float](), list[float](), list[float]()
        for place in range(3, 3 + _PLACES):
            seconds, others = _look(tokens, text, place)
            if place > 3:
                neighbours.append(seconds)
            for asked in list(text.asked.values()):
                asked.wait(_WAIT)
            engine.flush()
            other = next(one.id for one in others if one.id != text.tokens[place].id)
            before = engine.stats()
            began = time.perf_counter()
            index = len(generation.branches)
            begin = (*generation.branches[0].ids[:place], other)
            generation.add_branch(1, stop=Stop(max_tokens=1, ignore_eog=True), begin=begin)
            while len(generation.branches) <= index or len(generation.branches[index].buffer.ids) < place + 2:
                time.sleep(0)
            forks.append(time.perf_counter() - began)
            generation.wait(_WAIT)
            engine.flush()
            after = engine.stats()
            rows.append(after.branch_rows + after.prompt_rows - before.branch_rows - before.prompt_rows)
        for branch in generation.branches[1:4]:
            for place in range(5, _TOKENS, 12):  # farther apart than the prefetched positions
                seconds, _ = _look(tokens, tokens.of_branch(branch), place)
                looks.append(seconds)
    lines = [
        f"forks: {len(rows)} of a branch of {_TOKENS} tokens behind {len(generation.prompt_ids)} of prompt",
        f"rows evaluated per fork: {statistics.mean(rows):.2f} (most {max(rows)})",
        f"enter to the fork's first new token: {_milliseconds(forks)}",
        f"a place nobody has asked for to its alternatives: {_milliseconds(looks)}",
        f"arrow to the alternatives of a neighbour: {_milliseconds(neighbours)}",
    ]
    figure = (
        f"{statistics.mean(rows):.2f} rows a fork; enter to text {_median(forks):.1f} ms, "
        f"arrow to alternatives {_median(neighbours):.1f} ms (asked ahead), {_median(looks):.1f} ms (not)"
    )
    return [*lines, figure]


def _look(tokens: Tokens, text: TokenText, place: int) -> tuple[float, tuple[Alternative, ...]]:
    """Return the seconds until the alternatives at a position are known, and the alternatives."""
    began = time.perf_counter()
    while (others := tokens.look(text, place)) is None:
        time.sleep(0)  # as the screen does, which looks again
    return time.perf_counter() - began, others


def _median(seconds: list[float]) -> float:
    return 1000 * statistics.median(seconds)


def _milliseconds(seconds: list[float]) -> str:
    return f"median {_median(seconds):.1f} ms, most {1000 * max(seconds):.1f} ms"
