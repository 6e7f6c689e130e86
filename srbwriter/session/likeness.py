"""Near-duplicates among the branches of a round.

Texts are compared by their runs of characters, independent of language and tokens.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Sequence

from srbwriter.engine.generation import Branch
from srbwriter.engine.types import BranchState, FinishReason

ALIKE = 0.6
"""Least share of the shorter text's runs in the longer one for near-duplicates."""
_RUN, SHORT_RUN = 8, 4  # characters of a run: for near-duplicates, and for the distance of texts
_LEAST, _MOST = 80, 600  # characters of a text that are compared
_STEP = 80  # characters that a text grows by before it is compared again
_RENEWALS = 2  # of one branch


def runs(text: str, length: int = _RUN) -> frozenset[str]:
    """Return every run of ``length`` characters of a text, ignoring case and spaces."""
    plain = " ".join(text[:_MOST].casefold().split())
    return frozenset(plain[at : at + length] for at in range(len(plain) - length + 1))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of the shorter text's runs in the longer one; 0 if one has none."""
    least = min(len(one), len(other))
    return len(one & other) / least if least else 0.0


class Duplicates:
    """The near-duplicates of a round, and the branches rolled again for that."""

    def __init__(self) -> None:
        self._pairs: set[tuple[int, int]] = set()  # the later branch → the earlier one
        self.renewed = Counter[int]()
        self.steered: set[int] = set()  # by the writer: never rolled again
        self._runs: dict[int, tuple[object, int, frozenset[str]]] = {}  # (version, length, runs) compared

    @property
    def alike(self) -> dict[int, int]:
        """Index of each near-duplicate → index of the first branch before it that it resembles."""
        return dict(sorted(self._pairs, reverse=True))

    def look(self, branches: Sequence[Branch]) -> None:
        """Compare the branches that have grown or ended since the last call with all others."""
        for branch in branches:
            if self._changed(branch):
                self._compare(branch, branches)

    def to_renew(
        self, branches: Sequence[Branch], spared: Collection[int] = (), seconds: float = math.inf
    ) -> list[int]:
        """Return one branch of each pair of near-duplicates, unless it was steered or is ``spared``.

        Only branches that are running, or ended by themselves less than ``seconds`` ago.
        """
        found: list[int] = []
        kept = self.steered | set(spared)
        for index, other in sorted(self.alike.items()):
            for one in (index, other):
                may_go = one not in kept and self.renewed[one] < _RENEWALS
                if may_go and _is_fresh(branches[one], seconds):
                    found.append(one)
                    break
        return list(dict.fromkeys(found))

    def renew(self, branch: Branch) -> None:
        """Roll a branch again, and count it."""
        self.renewed[branch.index] += 1
        self._forget(branch.index)
        branch.reroll()

    def _changed(self, branch: Branch) -> bool:
        buffer, length = branch.buffer, sum(map(len, branch.buffer.pieces))
        take, known, _ = self._runs.get(branch.index, (None, 0, frozenset()))
        if take is not buffer and take is not None:
            self._forget(branch.index)
            known = 0
        ended = not branch.live and length != known
        if length < _LEAST or known >= _MOST or not (ended or length - known >= _STEP):
            return False
        self._runs[branch.index] = buffer, length, runs(branch.text)
        return True

    def _compare(self, branch: Branch, branches: Sequence[Branch]) -> None:
        mine = self._runs[branch.index][2]
        self._part(branch.index)
        for other in branches:
            known = self._runs.get(other.index)
            if other is not branch and known is not None and likeness(mine, known[2]) >= ALIKE:
                self._pairs.add((max(branch.index, other.index), min(branch.index, other.index)))

    def _forget(self, index: int) -> None:
        self._runs.pop(index, None)
        self._part(index)

    def _part(self, index: int) -> None:
        self._pairs = {pair for pair in self._pairs if index not in pair}


def _is_fresh(branch: Branch, seconds: float) -> bool:
    """Whether a branch is running, or ended by itself less than ``seconds`` ago."""
    if branch.state is BranchState.PAUSED:
        return False
    ended = branch.finish_reason in (FinishReason.STOPPED, FinishReason.KILLED, FinishReason.ERROR)
    return branch.live or not ended and time.monotonic() - branch.changed_at < seconds
