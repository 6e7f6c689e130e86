"""Edits of a text, and how they are found between two texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_WORD = re.compile(r"\w+|\W+")
_ALIKE = 6
"""Two hunks have at least this many equal words and separators between them."""


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


def hunks(old: str, new: str, start: int = 0) -> list[Edit]:
    """Return edits of words that turn ``old``, which starts at ``start``, into ``new``, in order.

    Equal words are matched at their nearest place, so many small changes cost little more than one.
    """
    edit = edit_between(old, new)
    removed, at = old[edit.start : edit.end], start + edit.start
    if not removed or not edit.text:
        return [Edit(at, at + len(removed), edit.text)] if removed or edit.text else []
    found: list[Edit] = []
    for before, after in _parts(_WORD.findall(removed), _WORD.findall(edit.text)):
        if before != after:
            part = edit_between(before, after)
            found.append(Edit(at + part.start, at + part.end, part.text))
        at += len(before)
    return found


def _parts(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split ``a`` and ``b`` into corresponding parts, equal or not."""
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and j < len(b) and a[i] == b[j]:
            yield a[i], b[j]
            i, j = i + 1, j + 1
            continue
        x, y = _again(a, b, i, j)
        yield "".join(a[i:x]), "".join(b[j:y])
        i, j = x, y


def _again(a: Sequence[str], b: Sequence[str], i: int, j: int) -> tuple[int, int]:
    """Return the nearest places from ``i`` and ``j`` on where ``_ALIKE`` words are equal; else the ends."""
    reach = 8
    while True:
        seen: dict[tuple[str, ...], int] = {}
        for y in range(j, min(j + reach, len(b) - _ALIKE + 1)):
            seen.setdefault(tuple(b[y : y + _ALIKE]), y)
        places = range(i, min(i + reach, len(a) - _ALIKE + 1))
        found = [(x, y) for x in places if (y := seen.get(tuple(a[x : x + _ALIKE]))) is not None]
        if found:
            return min(found, key=sum)
        if i + reach >= len(a) and j + reach >= len(b):
            return len(a), len(b)
        reach *= 4
