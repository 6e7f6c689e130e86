"""Rounds in which every contestant writes once, in turn, and what follows from them.

Other work on the machine slows whoever runs at that moment; so contestants alternate, each round gives
one ratio of neighbours in time, and medians are taken. Processor time knows less of others than the wall.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from .contestants import Contestant, Score


@dataclass(frozen=True, slots=True)
class Result:
    """Scores of one n, round by round, by name of the contestant."""

    n: int
    scores: dict[str, list[Score]]

    def speed(self, name: str) -> float:
        """Median tokens per second."""
        return median(score.speed for score in self.scores[name])

    def ratios(self, name: str, other: str) -> list[float]:
        """Speed of one contestant in terms of another's, round by round, lowest first."""
        pairs = zip(self.scores[name], self.scores[other], strict=True)
        return sorted(a.speed / b.speed for a, b in pairs)

    def busy_ratio(self, name: str, other: str) -> float:
        """Median ratio of tokens per second of processor time, which others on the machine hardly change."""
        pairs = zip(self.scores[name], self.scores[other], strict=True)
        return median((a.tokens / a.busy) / (b.tokens / b.busy) for a, b in pairs)

    def rows(self, name: str) -> float:
        """Rows decoded per token written; below 1 where identical branches shared rows."""
        return median(score.rows / score.tokens for score in self.scores[name])


def rounds(contestants: Sequence[Contestant], counts: Sequence[int], number: int) -> Iterator[Result]:
    """``number`` rounds for each n of ``counts``; every other round goes the other way round."""
    for contestant in contestants:
        contestant.write(min(counts), 0)  # the first run pays for pages and graphs
    for n in counts:
        scores: dict[str, list[Score]] = {contestant.name: [] for contestant in contestants}
        for seed in range(1, number + 1):
            for contestant in contestants[:: 1 if seed % 2 else -1]:
                scores[contestant.name].append(contestant.write(n, seed))
        yield Result(n, scores)
