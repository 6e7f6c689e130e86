"""How strongly values are preferred in choices among several: the model of Davidson and Luce.

A branch of value *v* has the worth exp(θ_v). Of a set of branches, one set S of *t* is picked with a
probability in proportion to δ_t times the geometric mean of its worths; δ_1 is 1 (Firth, Kosmidis and Turner
2019, arXiv:1909.07123). With one pick that is Luce's rule; for pairs it is Davidson's model of ties (1970),
and without ties that of Bradley and Terry. A choice among eight counts as one choice and not as seven pairs,
whose intervals would be too short.

Intervals are those of the profile likelihood: they hold with few choices too, and where a value always wins.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_PICKED = 4
"""Picks from one set that are counted; a set with more says hardly anything."""
_DEVIATIONS = 1.96  # of the standard normal distribution, 95 %
_FURTHEST = 12.0  # a strength that is as good as never or always
_RIDGE = 1e-4  # makes the maximum unique where nothing compares two values
_STEPS, _CLOSE, _EXACT = 60, 1e-7, 1e-3


class Choice(NamedTuple):
    """A choice: the number of branches of each value, and of those that were picked."""

    offered: tuple[int, ...]
    picked: tuple[int, ...]


class Strength(NamedTuple):
    """How often a value is picked rather than an average other one, from 0 to 1, with its interval (95 %)."""

    share: float
    low: float
    high: float


def strengths(choices: Sequence[Choice]) -> list[Strength]:
    """Return the strength of each value. There must be at least two values, and as many in each choice."""
    likelihood = _Likelihood.of(choices)
    return [_strength(likelihood, value) for value in range(likelihood.values)]


@dataclass
class _Likelihood:
    """The likelihood of all choices, in the strengths θ and the logarithms of δ_2 … δ_t.

    It is that of an exponential family, so it has one maximum. Equal choices are one row of ``counts``.
    """

    values: int
    design: Floats  # outcome × parameter
    counts: Floats  # row × outcome: how often it happened
    multiplicity: Floats  # row × outcome: the logarithm of the number of sets of branches that it covers

    @classmethod
    def of(cls, choices: Sequence[Choice]) -> _Likelihood:
        values = len(choices[0].offered)
        most = min(MOST_PICKED, max(sum(choice.picked) for choice in choices))
        outcomes = [
            tuple(chosen.count(value) for value in range(values))
            for size in range(1, most + 1)
            for chosen in combinations_with_replacement(range(values), size)
        ]
        design = np.zeros((len(outcomes), values + most - 1))
        for row, outcome in enumerate(outcomes):
            size = sum(outcome)
            design[row, :values] = np.array(outcome) / size
            if size > 1:
                design[row, values + size - 2] = 1.0
        rows = Counter(choice for choice in choices if sum(choice.picked) <= most)
        offered = list(dict.fromkeys(choice.offered for choice in rows))
        counts, multiplicity = (np.zeros((len(offered), len(outcomes))) for _ in range(2))
        for row, there in enumerate(offered):
            for column, outcome in enumerate(outcomes):
                sets = math.prod(math.comb(n, k) for n, k in zip(there, outcome, strict=True))
                multiplicity[row, column] = math.log(sets) if sets else -math.inf
                counts[row, column] = rows[Choice(there, outcome)]
        return cls(values, design, counts, multiplicity)

    def maximise(self, design: Floats, offset: Floats, start: Floats) -> tuple[float, Floats]:
        """Return the greatest likelihood and where it is, by Newton's method.

        The logarithm of an outcome's weight is ``design`` times the parameters, plus ``offset``.
        """
        at = start
        value, slope, bend = self._look(design, offset, at)
        for _ in range(_STEPS):
            step = np.linalg.solve(bend, slope) if len(at) else slope
            if float(np.abs(step).max(initial=0.0)) < _CLOSE:
                break
            size = 1.0
            while size > 1e-6:
                found = self._look(design, offset, at + size * step)
                if found[0] >= value:
                    break
                size /= 2
            else:
                break
            at = at + size * step
            value, slope, bend = found
        return value, at

    def bend(self, design: Floats, offset: Floats, at: Floats) -> Floats:
        """Return the negative second derivatives of the likelihood; see :meth:`maximise`."""
        return self._look(design, offset, at)[2]

    def _look(self, design: Floats, offset: Floats, at: Floats) -> tuple[float, Floats, Floats]:
        """Return the logarithm of the likelihood, its slope, and its negative second derivatives."""
        weights = offset + design @ at
        whole = self.multiplicity + weights
        top = whole.max(axis=1, keepdims=True)
        odds: Floats = np.exp(whole - top)
        total = odds.sum(axis=1, keepdims=True)
        odds /= total
        times = self.counts.sum(axis=1)
        sums: Any = top[:, 0] + np.log(total[:, 0])
        value = float(self.counts.sum(axis=0) @ weights - times @ sums) - _RIDGE * float(at @ at) / 2
        means = odds @ design
        slope = self.counts.sum(axis=0) @ design - times @ means - _RIDGE * at
        squares = design.T @ ((times @ odds)[:, None] * design)
        bend = squares - means.T @ (times[:, None] * means) + _RIDGE * np.eye(len(at))
        return value, slope, bend


def _strength(likelihood: _Likelihood, value: int) -> Strength:
    """Return the strength of ``value``: its θ where the mean of the others is 0, and where it may be."""
    others = [other for other in range(likelihood.values) if other != value]
    free = len(others) - 1
    parameters = len(likelihood.design[0])
    ties = parameters - likelihood.values
    basis = np.zeros((parameters, free + ties))
    for column, other in enumerate(others[:-1]):
        basis[other, column], basis[others[-1], column] = 1.0, -1.0
    basis[likelihood.values :, free:] = np.eye(ties)
    along, rest = likelihood.design[:, value], likelihood.design @ basis
    nothing = np.zeros(len(along))
    whole: Floats = np.concatenate((along[:, None], rest), axis=1)
    top, best = likelihood.maximise(whole, nothing, np.zeros(1 + free + ties))
    centre = min(max(float(best[0]), -_FURTHEST), _FURTHEST)
    deviation = math.sqrt(float(np.linalg.inv(likelihood.bend(whole, nothing, best))[0, 0]))
    start: Floats = best[1:]

    def distance(at: float) -> float:
        """Return how much further than the end of the interval ``at`` is; nearly linear."""
        nonlocal start
        there, start = likelihood.maximise(rest, at * along, start)
        return math.sqrt(max(0.0, 2 * (top - there))) - _DEVIATIONS

    def end(side: int) -> float:
        """Return the end of the interval on one side, by false position (the Illinois rule)."""
        inner = outer = middle = centre
        below = above = -_DEVIATIONS
        step = side * _DEVIATIONS * deviation
        while above < 0 and abs(outer) < _FURTHEST:
            inner, below = outer, above
            middle = outer = min(max(outer + step, -_FURTHEST), _FURTHEST)
            above, step = distance(outer), 2 * step
        while above > 0 and abs(outer - inner) > _CLOSE:
            middle = inner - below * (outer - inner) / (above - below)
            found = distance(middle)
            if abs(found) < _EXACT:
                break
            if found < 0:
                inner, below, above = middle, found, above / 2
            else:
                outer, above, below = middle, found, below / 2
        return middle

    low, high = end(-1), end(1)
    return Strength(*(1 / (1 + math.exp(-at)) for at in (centre, low, high)))
