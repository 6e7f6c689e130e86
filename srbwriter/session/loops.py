"""Branches that repeat themselves: noticed while they are written, whoever writes them.

The engine rewinds a branch with a ``loop_guard`` by itself (:mod:`srbwriter.engine.rules`).
"""

from __future__ import annotations

from srbwriter.engine.generation import Branch
from srbwriter.engine.rules import LOOP_REACH, find_loop, letters_of
from srbwriter.launch import LOOP_TIMES


def repeats(branch: Branch) -> bool:
    """Whether the text of ``branch`` ends in a loop."""
    text = "".join(branch.buffer.pieces[-LOOP_REACH:])
    return find_loop(letters_of(text[-LOOP_REACH:])).stands(LOOP_TIMES)
