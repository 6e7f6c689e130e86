"""Stops at the end of a line, a sentence or a paragraph."""

from __future__ import annotations

import copy

from ...prose import LineScanner, ParagraphScanner, Scanner, SentenceScanner
from ..types import Boundary, FinishReason, Stop
from .base import GO_ON, Continue, Finish, Watcher

_CONTEXT = 64  # characters of earlier text that a sentence scanner is given


class BoundaryWatcher(Watcher):
    """Ends a branch where the first unit of its own text ends, from the ``first`` token on."""

    def __init__(self, boundary: Boundary, first: int) -> None:
        self.boundary: Boundary = boundary
        self.first = first
        self._scanner = _scanner(boundary, 0)

    def accept(self, text: str, end: int, tokens: int) -> Continue | Finish:
        ends = self._scanner.feed(text)
        if ends and tokens >= self.first:
            return Finish(FinishReason(self.boundary), ends[0], None)
        held = self._scanner.held
        return Continue(held) if held else GO_ON

    def skip(self, text: str, end: int) -> None:
        self._scanner.feed(text)
        self._scanner.mark()

    def restart(self, text: str, position: int, pending: int) -> None:
        before = text[-_CONTEXT:]
        self._scanner = _scanner(self.boundary, position - len(before))
        self.skip(before, position)

    def resume(self, held: str, published: int, inside: bool, earlier: Watcher | None) -> None:
        if isinstance(earlier, BoundaryWatcher) and earlier.boundary == self.boundary:
            self._scanner = earlier._scanner  # it knows the beginning of the unit
            return
        self._scanner = _scanner(self.boundary, published, inside)
        self._scanner.feed(held)

    def copy(self) -> Watcher:
        other = copy.copy(self)
        other._scanner = copy.copy(self._scanner)
        return other


def watch_boundary(stop: Stop) -> BoundaryWatcher | None:
    """Return a watcher for ``stop.boundary``, if it names one."""
    return None if stop.boundary is None else BoundaryWatcher(stop.boundary, stop.min_tokens)


def _scanner(boundary: Boundary, position: int, inside: bool = False) -> Scanner:
    if boundary == "line":
        return LineScanner(position, inside)
    if boundary == "paragraph":
        return ParagraphScanner(position, inside)
    return SentenceScanner(position)
