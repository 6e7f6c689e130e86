"""How the branches of a round come to differ: drawn together, written anew if they are alike, and ordered.

Texts are compared by their runs of characters, so that it makes no difference what language they are in or
how they became tokens. Knows rounds; knows no screen.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from srbwriter.engine.generation import Branch
from srbwriter.engine.types import BranchState, FinishReason, Sampling, Together

from .judging import by_score

if TYPE_CHECKING:
    from .rounds import Round

ALIKE = 0.6
"""Share of the shorter text's runs that the longer one has, from which on they are nearly the same."""
_RUN, _SHORT_RUN = 8, 4  # characters of a run: to tell copies, and to tell how far texts lie apart
_LEAST, _MOST = 80, 600  # characters of a text that are compared
_STEP = 80  # characters that a text grows by before it is looked at again
_FRESH = 2.0  # seconds in which nobody has read a branch that has ended
_RENEWALS = 2  # of one branch


@dataclass(frozen=True, slots=True)
class Variety:
    """How the branches of new rounds are drawn; see :mod:`srbwriter.engine.siblings`."""

    siblings: Together = "independent"
    repulsion: float = 0.0
    renew: bool = True  # those that are nearly the same as another are written anew

    def asked(self, samplings: Sequence[Sampling], lacks: Callable[[str], str]) -> Mapping[str, Any]:
        """Fields of a request: as far as the engine can, and these ``samplings`` leave the choice to it."""
        steered = any(s.mirostat or s.adaptive_target >= 0 for s in samplings)
        told: dict[str, Any] = {}
        if self.siblings != "independent" and not steered and not lacks("siblings"):
            told["siblings"] = self.siblings
        if self.repulsion and not lacks("repulsion"):
            told["repulsion"] = self.repulsion
        return told


def runs(text: str, length: int = _RUN) -> frozenset[str]:
    """Every run of ``length`` characters of a text, whatever its case and spaces."""
    plain = " ".join(text[:_MOST].casefold().split())
    return frozenset(plain[at : at + length] for at in range(len(plain) - length + 1))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of the shorter text's runs that the longer one has; 0 where one has none."""
    least = min(len(one), len(other))
    return len(one & other) / least if least else 0.0


class Duplicates:
    """Which branches of a round are nearly the same as another, and which were written anew for that."""

    def __init__(self) -> None:
        self.alike: dict[int, int] = {}
        """Index of a branch, and of an earlier one that it is like."""
        self.renewed = Counter[int]()
        self.steered: set[int] = set()  # by the writer: never written anew
        self._runs: dict[int, tuple[object, int, frozenset[str]]] = {}  # of which take, how long it was

    def look(self, branches: Sequence[Branch]) -> None:
        """See which are alike now; only what has grown or ended since the last look is compared."""
        for branch in branches:
            if self._changed(branch):
                self._compare(branch, branches)

    def to_renew(
        self, branches: Sequence[Branch], spared: Collection[int] = (), seconds: float = math.inf
    ) -> list[int]:
        """One of each two that are alike, and that are neither steered nor ``spared``.

        Only such as are being written, or ended by themselves less than ``seconds`` ago.
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
        """Write one anew."""
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
                later, earlier = max(branch.index, other.index), min(branch.index, other.index)
                self.alike.setdefault(later, earlier)

    def _forget(self, index: int) -> None:
        self._runs.pop(index, None)
        self._part(index)

    def _part(self, index: int) -> None:
        self.alike = {one: other for one, other in self.alike.items() if index not in (one, other)}


def renew_alike(current: Round, wanted: Variety, read: Collection[int]) -> list[int]:
    """Write anew what is alike in a round, if that is wanted, and nobody has read, marked or steered it."""
    if not current.taken_up or current.generation is None:
        return []
    found = current.duplicates
    found.look(current.branches)
    spared = current.locked.union(read)
    chosen = found.to_renew(current.branches, spared, _FRESH) if wanted.renew else []
    renewed = [index for index in chosen if not _is_marked(current, index)]
    for index in renewed:
        found.renew(current.branches[index])
    return renewed


def _is_marked(current: Round, index: int) -> bool:
    """Whether the writer has bookmarked or rated a branch."""
    if index >= len(current.tracks) or not current.tracks[index].nodes:
        return False
    node = current.node_of(index)
    marks = current.story.marks(node) if current.story.is_living(node) else None
    return marks is not None and (marks.bookmark or bool(marks.rating))


def _is_fresh(branch: Branch, seconds: float) -> bool:
    """Whether it is still being written, or has ended by itself less than ``seconds`` ago."""
    if branch.buffer.typed or branch.state is BranchState.PAUSED:
        return False
    ended = branch.finish_reason in (FinishReason.STOPPED, FinishReason.KILLED, FinishReason.ERROR)
    return branch.live or not ended and time.monotonic() - branch.changed_at < seconds


# ---- orders


def _as_drawn(current: Round) -> list[int]:
    return [branch.index for branch in current.branches]


def _by_difference(current: Round) -> list[int]:
    """The first, then always the one that is farthest from those before it."""
    texts = {branch.index: runs(branch.text, _SHORT_RUN) for branch in current.branches}
    first, *left = list(texts)
    order: list[int] = [first]
    nearest: dict[int, float] = {index: likeness(texts[index], texts[first]) for index in left}
    while nearest:
        best = min(nearest, key=lambda index: (nearest[index], index))
        del nearest[best]
        order.append(best)
        nearest = {index: max(known, likeness(texts[index], texts[best])) for index, known in nearest.items()}
    return order


def _by_length(current: Round) -> list[int]:
    lengths = {branch.index: len(branch.text) for branch in current.branches}
    return sorted(lengths, key=lambda index: (-lengths[index], index))


def _by_probability(current: Round) -> list[int]:
    known = current.mean_logprobs
    return sorted(
        (b.index for b in current.branches), key=lambda index: (-known.get(index, -math.inf), index)
    )


def ordered(
    current: Round, name: str, logprobs: Callable[[Branch], Sequence[float | None]]
) -> list[int] | None:
    """The branches of a round in an order of :data:`ORDERS`; None while what it takes is not known.

    ``logprobs`` knows the log-probabilities of a branch's tokens, or finds them out.
    """
    if name == BY_PROBABILITY:
        known = {branch.index: logprobs(branch) for branch in current.branches}
        if any(value is None for values in known.values() for value in values):
            return None
        means = {
            index: fmean(v for v in values if v is not None) for index, values in known.items() if values
        }
        current.mean_logprobs = means
    return ORDERS[name][1](current)


AS_DRAWN, BY_PROBABILITY = "as drawn", "by probability"
ORDERS: dict[str, tuple[str, Callable[[Round], list[int]]]] = {
    AS_DRAWN: ("one after the other, as their numbers say", _as_drawn),
    "by difference": ("those first that are least like one another", _by_difference),
    BY_PROBABILITY: ("those first whose words the model finds likeliest, on average", _by_probability),
    "by length": ("the longest first", _by_length),
    "as judged": ("the best by your rubric first, once they are judged", by_score),
}
"""Orders of panes by name: a few words about each, and from a round of at least one branch to its indices."""
