"""The steps of the taking cursor. Pure functions on text; knows no widget and no branch."""

from __future__ import annotations

from srbwriter.prose import Unit, unit_ends


def step(text: str, offset: int, unit: Unit, direction: int) -> int:
    """The unit end next to ``offset``, after it (``direction`` 1) or before it (-1); 0 is the start."""
    ends = unit_ends(text, unit)
    if direction > 0:
        return next((end for end in ends if end > offset), len(text.rstrip()))
    return next((end for end in reversed(ends) if end < offset), 0)
