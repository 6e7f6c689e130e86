"""Strengths of values in choices: their intervals are as wide as they say."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from srbwriter.session.strengths import Choice, Strength, strengths


def simulated(
    rng: np.random.Generator,
    theta: tuple[float, ...],
    offered: tuple[int, ...],
    count: int,
    ties: float = -math.inf,
) -> list[Choice]:
    """Choices by a writer with these strengths, who picks two with the weight exp(``ties``)."""
    branches = [value for value, n in enumerate(offered) for _ in range(n)]
    sets = [(branch,) for branch in branches] + list(combinations(branches, 2))
    weights = np.array([
        math.exp(sum(theta[value] for value in chosen) / len(chosen) + (ties if len(chosen) == 2 else 0.0))
        for chosen in sets
    ])  # fmt: skip
    drawn = rng.choice(len(sets), size=count, p=weights / weights.sum())
    return [Choice(offered, tuple(sets[one].count(value) for value in range(len(theta)))) for one in drawn]


def share(theta: tuple[float, ...], value: int) -> float:
    others = [strength for at, strength in enumerate(theta) if at != value]
    return 1 / (1 + math.exp(sum(others) / len(others) - theta[value]))


WRITERS = {
    "no taste": ((0.0, 0.0, 0.0), (3, 3, 2), 30, -math.inf),
    "a taste": ((1.0, 0.0, -1.0), (2, 2, 2), 40, -math.inf),
    "two values": ((0.8, 0.0), (4, 4), 20, -math.inf),
    "pairs": ((0.5, 0.0), (1, 1), 40, -math.inf),
    "ties": ((0.8, 0.0, 0.0), (2, 1, 1), 50, -1.5),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_the_intervals_hold_in_95_of_100_cases(writer: str) -> None:
    theta, offered, count, ties = WRITERS[writer]
    rng, held = np.random.default_rng(11), list[bool]()
    for _ in range(300):
        found = strengths(simulated(rng, theta, offered, count, ties))
        held += [one.low <= share(theta, value) <= one.high for value, one in enumerate(found)]
        assert all(one.low <= one.share <= one.high for one in found)
    assert 0.93 <= sum(held) / len(held) <= 0.97


def pairs(won: int, lost: int, tied: int = 0) -> list[Strength]:
    both = (1, 1)
    outcomes = [((1, 0), won), ((0, 1), lost), ((1, 1), tied)]
    return strengths([Choice(both, picked) for picked, times in outcomes for _ in range(times)])


def test_a_pair_is_bradley_terry_and_a_tie_is_half_of_each() -> None:
    first, second = pairs(30, 10)
    assert first.share == pytest.approx(0.75, abs=1e-3) and second.share == pytest.approx(0.25, abs=1e-3)
    assert (first.low, first.high) == (pytest.approx(0.604, abs=3e-3), pytest.approx(0.868, abs=3e-3))
    assert (second.low, second.high) == (
        pytest.approx(1 - first.high, abs=1e-3),
        pytest.approx(1 - first.low, abs=1e-3),
    )
    even = pairs(0, 0, 12)[0]
    assert even.share == pytest.approx(0.5, abs=1e-3) and even.low < 0.4 and even.high > 0.6


def test_what_always_wins_has_no_upper_end_and_more_wins_raise_the_lower_one() -> None:
    few, many = pairs(6, 0)[0], pairs(60, 0)[0]
    assert few.high > 0.99 and 0.5 < few.low < many.low < 1.0


def test_more_branches_of_a_value_are_no_strength() -> None:
    choices = [Choice((6, 2), (1, 0))] * 30 + [Choice((6, 2), (0, 1))] * 10
    assert strengths(choices)[0].share == pytest.approx(0.5, abs=1e-3)


def test_values_that_nothing_compares_are_as_they_may_be() -> None:
    apart = [Choice((1, 1, 0, 0), (1, 0, 0, 0)), Choice((0, 0, 1, 1), (0, 0, 1, 0))] * 10
    assert all(one.low < 0.01 or one.high > 0.99 for one in strengths(apart))
