"""Branches choose as their parameters say, each from its own history and seed; the logits are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import BranchView, Request, Sampling, Stop

from .support import WAIT

Row = NDArray[np.float32]

OPEN: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}  # nothing truncates


@pytest.fixture
def row(engine: Engine) -> Row:
    logits = np.random.default_rng(0).normal(0.0, 3.0, engine.info.n_vocab).astype(np.float32)
    logits[list(engine.eog)] = -30.0
    return logits


def draw(
    engine: Engine, row: Row, sampling: Sampling, times: int = 60, n: int = 1, script: Sequence[int] = ()
) -> list[tuple[int, ...]]:
    """Return what branches choose of ``row`` again and again, behind a ``script``."""

    def show(logits: Row, view: BranchView) -> None:
        place = len(view.ids)
        logits[:] = row if place >= len(script) else -np.inf
        if place < len(script):
            logits[script[place]] = 0.0

    stop = Stop(max_tokens=len(script) + times, ignore_eog=True)
    asked = Request("Once", n=n, sampling=sampling, stop=stop, logits_callback=show)
    return [branch.ids[len(script) :] for branch in engine.submit(asked).wait(WAIT).branches]


def found(engine: Engine, row: Row, sampling: Sampling, times: int = 60) -> set[int]:
    return set(draw(engine, row, sampling, times)[0])


def probabilities(row: Row) -> NDArray[np.float64]:
    weights = np.exp(row.astype(np.float64) - row.max())
    return weights / weights.sum()


# ---- what is chosen


def test_greedy_and_top_1_are_the_likeliest(engine: Engine, row: Row) -> None:
    for sampling in (Sampling(temperature=0.0), Sampling(top_k=1), Sampling(temperature=1e-9, top_p=0.1)):
        assert found(engine, row, sampling, 3) == {int(row.argmax())}


@pytest.mark.parametrize("min_p", [0.02, 0.3])
def test_min_p_cuts_below_its_share_of_the_likeliest(engine: Engine, row: Row, min_p: float) -> None:
    p = probabilities(row)
    allowed = set(np.flatnonzero(p >= min_p * p.max()))
    chosen = found(engine, row, Sampling(**OPEN | {"min_p": min_p}), 150)
    assert chosen <= allowed and len(chosen) > len(allowed) // 3


@pytest.mark.parametrize("top_p", [0.2, 0.7])
def test_top_p_keeps_the_smallest_set_of_that_mass(engine: Engine, row: Row, top_p: float) -> None:
    p = probabilities(row)
    order = np.argsort(-p)
    size = int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1
    chosen = found(engine, row, Sampling(**OPEN | {"top_p": top_p}), 100)
    assert chosen <= set(order[:size]) and len(chosen) > 1


def test_xtc_drops_all_likely_tokens_but_the_last(engine: Engine, row: Row) -> None:
    row[:] = -20.0
    row[[305, 306, 307, 308]] = (3.0, 2.0, 1.5, 0.5)
    sampling = Sampling(**OPEN | {"xtc_probability": 1.0, "xtc_threshold": 0.1, "top_k": 4})
    assert found(engine, row, sampling) == {307, 308}


def test_an_order_is_taken_literally(engine: Engine, row: Row) -> None:
    unordered = draw(engine, row, Sampling(samplers=("no such sampler",), top_k=1, seed=3))
    assert unordered == draw(engine, row, Sampling(**OPEN, seed=3))
    assert found(engine, row, Sampling(samplers=("temp", "top_k"), top_k=1)) == {int(row.argmax())}


# ---- seeds and history


@pytest.mark.parametrize("more", [{}, {"mirostat": 2}, {"adaptive_target": 0.4}, {"xtc_probability": 0.5}])
def test_equal_seeds_repeat_and_others_do_not(engine: Engine, row: Row, more: dict[str, Any]) -> None:
    first, again, other = (draw(engine, row, Sampling(**OPEN, **more, seed=k), 24) for k in (11, 11, 12))
    assert first == again != other


def test_branches_remember_what_they_wrote_and_only_so_far_back(engine: Engine, row: Row) -> None:
    best = [int(token) for token in np.argsort(-row)[:6]]
    sampling = Sampling(temperature=0.0, presence_penalty=50.0)
    assert draw(engine, row, sampling, 6, n=2) == [tuple(best)] * 2
    short = Sampling(temperature=0.0, presence_penalty=50.0, repeat_last_n=2)
    assert draw(engine, row, short, 6) == [(*best[:3], *best[:3])]


def test_dry_keeps_a_phrase_from_going_on(engine: Engine, row: Row) -> None:
    best = int(row.argmax())
    phrase = [token for token in range(300, 304) if token != best]
    repeating = [*phrase, best, 400, 401, *phrase]
    for multiplier, chosen in ((0.0, True), (9.0, False)):
        sampling = Sampling(temperature=0.0, dry_multiplier=multiplier)
        [(token,)] = draw(engine, row, sampling, 1, script=repeating)
        assert (token == best) is chosen
