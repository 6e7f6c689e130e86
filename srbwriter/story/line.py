"""The text from the root to a node as one line of pieces: which node holds a place, and where it begins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import overload

from srbwriter.story.edits import Piece
from srbwriter.story.model import State
from srbwriter.story.node import Node
from srbwriter.story.words import Count


class Line:
    """The nodes below the root on the path to ``nodes[-1]``, as a sequence of pieces.

    A tree keeps the last one, so that a key in a path of thousands of nodes walks none of them. A text that
    grows moves only a gap, behind which every place has the same shift, as in the buffer of an editor.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = list(nodes)
        self.index = {node.id: at for at, node in enumerate(self.nodes)}
        self.living = all(node.state == State.LIVING for node in self.nodes)
        self._starts = list(accumulate((len(node.text) for node in self.nodes), initial=0))
        self._gap, self._shift = 0, 0

    def start(self, at: int) -> int:
        """Return the place at which node ``at`` begins; for the number of nodes, the end."""
        return self._starts[at] + (self._shift if at > self._gap else 0)

    def resize(self, at: int, by: int) -> None:
        """Note that the text of node ``at`` has become longer ``by`` characters."""
        for behind in range(self._gap + 1, at + 1):
            self._starts[behind] += self._shift
        for before in range(at + 1, self._gap + 1):
            self._starts[before] -= self._shift
        self._gap = at
        self._shift += by

    @property
    def length(self) -> int:
        """The length of the text."""
        return self.start(len(self.nodes))

    def __len__(self) -> int:
        return len(self.nodes)

    @overload
    def __getitem__(self, at: int) -> Piece: ...
    @overload
    def __getitem__(self, at: slice) -> list[Piece]: ...
    def __getitem__(self, at: int | slice) -> Piece | list[Piece]:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self.nodes)))]
        node = self.nodes[at]
        return Piece(node.id, self.start(at), self.start(at + 1), node.author == "model", node.streaming)

    def read(self, start: int, stop: int) -> str:
        """Return characters ``start`` to ``stop``, or up to the end of the text."""
        stop = min(stop, self.length)
        if start >= stop:
            return ""
        places = range(len(self._starts))
        first, last = (
            bisect_right(places, start, key=self.start) - 1,
            bisect_left(places, stop, key=self.start),
        )
        begin = self.start(first)
        return "".join(node.text for node in self.nodes[first:last])[start - begin : stop - begin]

    def words(self, first: int, last: int | None = None) -> int:
        """Count the words of nodes ``first`` to ``last`` (the end), and of those around that share a word.

        For comparison with the same nodes after a change: a word can run through several of them.
        """
        last = len(self.nodes) - 1 if last is None else last
        while first > 0:
            first -= 1
            if not self.nodes[first].count[1] & Count.SINGLE:
                break
        while last < len(self.nodes) - 1:
            last += 1
            if not self.nodes[last].count[1] & Count.SINGLE:
                break
        return Count.total(node.count for node in self.nodes[first : last + 1]).words
