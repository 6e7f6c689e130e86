"""Branches that repeat themselves: noticed while they are written, and rewound if the writer wishes.

The engine rewinds a branch with a ``loop_guard`` by itself (:mod:`srbwriter.engine.watchers.loops`); here
loops are only noticed, whoever writes the branch. Imports no screen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from srbwriter.engine.watchers.loops import LoopSearch
from srbwriter.launch import LOOP_TIMES

from .instrument import Desk, Instrument

if TYPE_CHECKING:
    from srbwriter.engine.generation import Branch, Buffer


class Loops(Instrument):
    """Notices loops in branches, and guards new and running ones against them."""

    name: ClassVar[str] = "loops"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._round: object = None  # the round of the branches in ``_seen``
        self._seen: dict[int, tuple[Buffer, int, LoopSearch]] = {}  # text read so far, in pieces

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
                desk.steer(branch.index, "set_sampling", sampling=own)

    def repeats(self, branch: Branch) -> bool:
        """Whether the text of ``branch`` ends in a loop. Only new text is read."""
        if self._round is not self._desk.round:
            self._round, self._seen = self._desk.round, {}
        buffer, read, search = self._seen.get(branch.index, (branch.buffer, 0, LoopSearch()))
        if buffer is not branch.buffer:
            buffer, read, search = branch.buffer, 0, LoopSearch()
        pieces = buffer.pieces[read:]
        search.read("".join(pieces))
        self._seen[branch.index] = buffer, read + len(pieces), search
        return search.found is not None and search.found.times >= LOOP_TIMES
