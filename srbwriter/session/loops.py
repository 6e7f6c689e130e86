"""Branches that repeat themselves: noticed while they are written, by any engine."""

from __future__ import annotations

from srbwriter.engine.generation import Branch

TIMES = 3
"""How often a passage stands in a row at the end of a text that is a loop."""
_LEAST, _LONGEST = 60, 600  # characters of all repetitions together, and of one passage


def repeats(branch: Branch) -> bool:
    """Whether the text of ``branch`` ends in a loop."""
    text = " ".join("".join(branch.buffer.pieces[-TIMES * _LONGEST :]).lower().split())
    for period in range(1, min(len(text) // TIMES, _LONGEST) + 1):
        end = text[-max(TIMES * period, _LEAST) :]
        if text[-1] == text[-1 - period] and len(end) >= _LEAST and end[period:] == end[:-period]:
            return True
    return False
