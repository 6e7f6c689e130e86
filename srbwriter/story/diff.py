"""Where two texts begin and end alike, in the time it takes to compare memory.

An edit of a long text is known by the texts before and after it alone. Knows nothing of nodes or runs.
"""

from __future__ import annotations


def same_start(a: str, b: str) -> int:
    """How many characters ``a`` and ``b`` have in common at their beginnings."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # halving: what is known to be alike is never compared again
        middle = (low + high + 1) // 2
        if b.startswith(a[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def same_end(a: str, b: str, most: int) -> int:
    """How many characters, at most ``most``, ``a`` and ``b`` have in common at their ends."""
    low, high = 0, max(0, min(len(a), len(b), most))
    while low < high:
        middle = (low + high + 1) // 2
        if b.endswith(a[len(a) - middle : len(a) - low], 0, len(b) - low):
            low = middle
        else:
            high = middle - 1
    return low
