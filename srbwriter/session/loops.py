"""Branches that repeat themselves: noticed while they are written, and rewound if the writer wishes.

The engine rewinds a branch with a ``loop_guard`` by itself (:mod:`srbwriter.engine.rules`); here
loops are only noticed, whoever writes the branch. Imports no screen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from srbwriter.engine.rules import LOOP_REACH, find_loop, letters_of
from srbwriter.launch import LOOP_TIMES

from .instrument import Instrument

if TYPE_CHECKING:
    from srbwriter.engine.generation import Branch


class Loops(Instrument):
    """Notices loops in branches, and guards new and running ones against them."""

    name: ClassVar[str] = "loops"

    @property
    def guards(self) -> bool:
        """Whether branches that begin to repeat themselves are rewound."""
        return self._desk.sampling.loop_guard > 0

    def guard(self, on: bool) -> None:
        """Rewind new branches, and running ones, where they begin to repeat themselves; or no longer.

        Raises NotSupported if the engine cannot rewind.
        """
        desk, times = self._desk, LOOP_TIMES if on else 0
        if on:
            desk.capabilities.require("loop_guard")
        desk.sampling = replace(desk.sampling, loop_guard=times)
        for branch in desk.round.branches if desk.round is not None else ():
            if branch.live and desk.capabilities.has("loop_guard"):
                own = replace(branch.sampling, loop_guard=times, seed=None)
                desk.steer(branch.index, "change", sampling=own)

    def repeats(self, branch: Branch) -> bool:
        """Whether the text of ``branch`` ends in a loop."""
        text = "".join(branch.buffer.pieces[-LOOP_REACH:])
        return find_loop(letters_of(text[-LOOP_REACH:])).stands(LOOP_TIMES)
