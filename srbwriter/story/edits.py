"""Edits of a text, and how they are found between two texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import NamedTuple

_WORD = re.compile(r"\w+\W*|\W+")
_ALIKE = 3
"""Two hunks have at least this many equal words between them."""


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


def same_end(a: str, b: str, most: int) -> int:
    """Return the length of the common suffix of ``a`` and ``b``, at most ``most``."""
    return same_start(a[max(len(a) - most, 0) :][::-1], b[max(len(b) - most, 0) :][::-1])


def edit_between(old: str, new: str) -> Edit:
    """Return the one edit that turns ``old`` into ``new``, between their common prefix and suffix."""
    start = same_start(old, new)
    tail = same_end(old, new, min(len(old), len(new)) - start)
    return Edit(start, len(old) - tail, new[start : len(new) - tail])


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return ``text`` after ``edits``, which are in order and disjoint, with places of ``text``."""
    parts, at = list[str](), 0
    for start, end, words in edits:
        parts += (text[at:start], words)
        at = end
    return "".join([*parts, text[at:]])


def hunks(old: str, new: str) -> list[Edit]:
    """Return edits, in order, that turn ``old`` into ``new`` between passages of equal words.

    For texts of some pages, such as a branch: the time grows with their common words.
    """
    a, b = _WORD.findall(old), _WORD.findall(new)
    found: list[Edit] = []
    at = i = j = 0
    for x, y, size in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
        if size < _ALIKE and x < len(a):
            continue
        removed = "".join(a[i:x])
        start, end, words = edit_between(removed, "".join(b[j:y]))
        if start < end or words:
            found.append(Edit(at + start, at + end, words))
        at += len(removed) + sum(map(len, a[x : x + size]))
        i, j = x + size, y + size
    return found
