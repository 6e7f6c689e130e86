"""The writer's habits, learnt from the picks in the story: which panes, and how much of them.

Habits are counts, with one added to each, so that a new story prefers nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from srbwriter.prose import sentence_ends
from srbwriter.story import Node, NodeId, Story
from srbwriter.story.model import as_list

AUTOMATIC = "autorun"
"""The name of the story value with the nodes that no writer picked: they say nothing about their taste."""
_MOST = 48
"""Number of the latest picks that are counted."""
_PARTS = 0.2
"""Least share of partial picks for which the continuation of a part is prefetched."""
_PLACES = 9
_LENGTHS = ("short", "middling", "long")


@dataclass(frozen=True, slots=True)
class Pick:
    """A pick of one branch among others."""

    place: int  # 0 is the first pane
    length: str  # compared with its siblings
    sentences: int = 0  # of a partial pick; 0 for the whole branch


@dataclass(slots=True)
class Habits:
    """Counts over the picks on the path to the current node."""

    picks: list[Pick] = field(default_factory=list[Pick])

    def order(self, lengths: Sequence[int]) -> list[int]:
        """Return the indices of panes with texts of these lengths, the likeliest pick first."""
        places = Counter(min(pick.place, _PLACES) for pick in self.picks)
        kinds = Counter(pick.length for pick in self.picks)

        def worth(index: int) -> float:
            return (places[min(index, _PLACES)] + 1) * (kinds[_length(index, lengths)] + 1)

        return sorted(range(len(lengths)), key=lambda index: (-worth(index), index))

    def part(self, text: str) -> int | None:
        """Return the end of the probable pick in ``text``, a sentence's end; None for the whole text."""
        parts = sorted(pick.sentences for pick in self.picks if pick.sentences)
        ends = [end for end in sentence_ends(text) if end < len(text.rstrip())]
        if not ends or len(parts) < _PARTS * len(self.picks) or not parts:
            return None
        return ends[min(parts[len(parts) // 2], len(ends)) - 1]


def _length(index: int, lengths: Sequence[int]) -> str:
    """Return the class of a text's length: short, medium or long."""
    shorter = sum(length < lengths[index] for length in lengths)
    return _LENGTHS[min(3 * shorter // max(len(lengths), 1), 2)]


class Learner:
    """Reads the picks of the story, each once."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._known: dict[NodeId, Pick | None] = {}

    def habits(self, node: NodeId) -> Habits:
        """Return the habits of the picks on the path to ``node``."""
        path = self._story.path(node)
        found: list[Pick] = []
        for above, taken in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if taken not in self._known:
                self._known[taken] = self._pick(above, taken)
            pick = self._known[taken]
            if pick is not None:
                found.append(pick)
                if len(found) == _MOST:
                    break
        return Habits(found)

    def _pick(self, above: NodeId, taken: NodeId) -> Pick | None:
        """Return the pick of ``taken``; None if the writer did not pick it, or it had no siblings."""
        story = self._story
        if taken in as_list(story.value(AUTOMATIC)):
            return None
        panes = [n for n in story.nodes(story.children(above)) if n.author == "model" and n.text.strip()]
        place = next((index for index, node in enumerate(panes) if node.id == taken), None)
        if place is None or len(panes) < 2:
            return None
        rest = self._rest(panes[place])
        lengths = [len(node.text) + (len(rest) if node.id == taken else 0) for node in panes]
        text = panes[place].text
        sentences = max(1, len(sentence_ends(text))) if rest else 0
        return Pick(place, _length(place, lengths), sentences)

    def _rest(self, node: Node) -> str:
        """Return the rest of a partially picked branch: a child with its seed."""
        below = self._story.nodes(self._story.children(node.id))
        cut = (child for child in below if child.author == "model" and child.seed == node.seed is not None)
        return next((child.text for child in cut), "")
