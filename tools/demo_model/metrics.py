"""What the evaluation counts in sampled text: words, loops, overlap. Pure functions; knows no model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
LOOP_GRAM = 8
DISTINCT_GRAM = 4


def words(text: str) -> list[str]:
    """The words of a text in lower case; an apostrophe inside a word belongs to it."""
    return [word.replace("’", "'") for word in _WORD.findall(text.lower())]


def word_list(texts: Iterable[str], at_least: int = 2) -> frozenset[str]:
    """Words that occur at least so often in the texts, so that a misprint is no word."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(words(text))
    return frozenset(word for word, count in counts.items() if count >= at_least)


def grams(items: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(items[i : i + size]) for i in range(len(items) - size + 1)]


def known_share(samples: Iterable[str], known: frozenset[str]) -> float:
    """Share of the words of all samples that are in `known`; 0 where there is no word."""
    found = [word in known for sample in samples for word in words(sample)]
    return sum(found) / len(found) if found else 0.0


def loops(sample: str) -> bool:
    """Whether any run of eight words comes twice."""
    runs = grams(words(sample), LOOP_GRAM)
    return len(set(runs)) < len(runs)


def distinct(branches: Iterable[str]) -> float:
    """Distinct-4 of the branches of one prompt: different runs of four words per run; 0 without any."""
    runs = [run for branch in branches for run in grams(words(branch), DISTINCT_GRAM)]
    return len(set(runs)) / len(runs) if runs else 0.0


def overlap(branches: Sequence[str]) -> float:
    """Mean over the pairs of branches of |A ∩ B| / |A ∪ B|, of their sets of four-word runs."""
    sets = [set(grams(words(branch), DISTINCT_GRAM)) for branch in branches]
    shares = [len(a & b) / len(a | b) for a, b in combinations(sets, 2) if a | b]
    return sum(shares) / len(shares) if shares else 0.0
