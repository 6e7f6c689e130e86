"""Typed words that the disk did not take: kept in order, joined where they belong together.

Knows nothing of disks: somebody tells it what to keep and how to try again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from srbwriter.story.types import NodeId, NotSaved, StoryError


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Words waiting for the disk; ``edit`` means that ``text`` is to be the whole text of ``node``."""

    verb: Literal["append", "edit", "overwrite"]
    node: NodeId
    text: str


class UnsavedWords:
    """What is waiting, oldest first."""

    def __init__(self) -> None:
        self._waiting: list[Unsaved] = []

    @property
    def waiting(self) -> tuple[Unsaved, ...]:
        return tuple(self._waiting)

    def attempt(self, words: Unsaved, do: Callable[[Unsaved], NodeId]) -> NodeId:
        """Save everything that waits, then ``words``. Whatever is not saved waits on.

        Raises NotSaved, or another StoryError if ``words`` cannot be taken at all (then they do not wait).
        """
        self.retry(do, more=words)
        try:
            return do(words)
        except NotSaved:
            self._keep(words)
            raise

    def retry(self, do: Callable[[Unsaved], NodeId], more: Unsaved | None = None) -> None:
        """Save everything that waits, oldest first. Raises NotSaved; then ``more`` waits as well."""
        while self._waiting:
            try:
                do(self._waiting[0])
            except NotSaved:
                if more is not None:
                    self._keep(more)
                raise
            except StoryError:  # its place is gone: the words themselves still have to be kept
                first = self._waiting[0]
                if first.verb == "append" and first.node == 1:
                    raise
                self._waiting[0] = Unsaved("append", 1, first.text)
                continue
            del self._waiting[0]

    def _keep(self, words: Unsaved) -> None:
        last = self._waiting[-1] if self._waiting else None
        if last is None or last.node != words.node:
            self._waiting.append(words)
        elif words.verb == "append":
            self._waiting[-1] = replace(last, text=last.text + words.text)
        else:
            self._waiting[-1] = words
