"""Edits of a text, and the edit between two texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Edit(NamedTuple):
    """Replaces characters ``start`` to ``end`` of a text by ``text``."""

    start: int
    end: int
    text: str


def same_start(a: str, b: str) -> int:
    """Return the length of the common prefix of ``a`` and ``b``."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # binary search: no character is compared twice as equal
        middle = (low + high + 1) // 2
        if b.startswith(a[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def edit_between(old: str, new: str) -> Edit:
    """Return the one edit that turns ``old`` into ``new``, between their common prefix and suffix."""
    start = same_start(old, new)
    tail = same_start(old[start:][::-1], new[start:][::-1])
    return Edit(start, len(old) - tail, new[start : len(new) - tail])


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return ``text`` after ``edits``, which are in order and disjoint, with places of ``text``."""
    parts, at = list[str](), 0
    for start, end, words in edits:
        parts += (text[at:start], words)
        at = end
    return "".join([*parts, text[at:]])
