"""Judging: rows and seconds of a judged round, against evaluating every branch again for each question."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from srbwriter.engine import Engine, EngineOptions, Request, Sampling, Stop
from srbwriter.engine.generation import Branch
from srbwriter.engine.types import Priority
from srbwriter.session.judging import RUBRIC, Judgement, answers, asks, questions

ROUNDS, TIMES = (8, 16), 5
STORY = "Once upon a time, there was a little fox who lived in the wood. " * 24
"""Before the branches: some 400 tokens."""
_LENGTH = Stop(max_tokens=80, ignore_eog=True)
_OPTIONS = EngineOptions(n_ctx=8192, gpu_layers=0, seed=1, max_branches=max(ROUNDS))


def run(model: Path) -> list[str]:
    asked = questions(RUBRIC, "slow and sad")
    lines = [
        f"{len(asked)} questions, a story of some 400 tokens, branches of {_LENGTH.max_tokens} tokens",
        "", "| branches | rows | seconds | rows anew | seconds anew |", "|---|---|---|---|---|",
    ]  # fmt: skip
    figure: list[str] = []
    for n in ROUNDS:
        with Engine.load(model, _OPTIONS) as engine:
            cached = [_judged(engine, _round(engine, n, seed), asked) for seed in range(TIMES)]
            anew = [_anew(engine, _round(engine, n, 100 + seed), asked) for seed in range(2)]
        rows, seconds = (median(column) for column in zip(*cached, strict=True))
        rows_anew, seconds_anew = (median(column) for column in zip(*anew, strict=True))
        lines.append(f"| {n} | {rows:.0f} | {seconds:.3f} | {rows_anew:.0f} | {seconds_anew:.2f} |")
        figure.append(
            f"{n} branches {rows:.0f} rows, {rows / n:.0f} a branch, {seconds:.2f} s "
            f"(anew {rows_anew:.0f} rows, {seconds_anew:.2f} s)"
        )
    return [*lines, "", "judging: " + "; ".join(figure)]


def _round(engine: Engine, n: int, seed: int) -> Sequence[Branch]:
    sampling = Sampling(seed=1 + seed)
    return engine.submit(Request(STORY, n=n, sampling=sampling, stop=_LENGTH)).wait().branches


def _judged(engine: Engine, branches: Sequence[Branch], asked: tuple[str, ...]) -> tuple[int, float]:
    """Rows and seconds of a round that has just ended."""
    before, begun = _rows(engine), time.perf_counter()
    judgement = Judgement(asked)
    requests = judgement.begin(engine, branches, Priority.NORMAL)
    for generation in requests:
        generation.wait()
    assert all((found := judgement.score(b)) is not None and found.mean is not None for b in branches)
    return _rows(engine) - before, time.perf_counter() - begun


def _anew(engine: Engine, branches: Sequence[Branch], asked: tuple[str, ...]) -> tuple[int, float]:
    known = [answers(engine, question) for question in asked]
    before, begun = _rows(engine), time.perf_counter()
    for branch in branches:
        for request in asks(engine, branch, known, Priority.NORMAL):
            engine.submit(replace(request, cache_prompt=False)).wait()
    return _rows(engine) - before, time.perf_counter() - begun


def _rows(engine: Engine) -> int:
    stats = engine.stats()
    return stats.prompt_rows + stats.branch_rows
