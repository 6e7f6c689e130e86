"""The branches of a story while a model writes them.

Nothing that was generated is ever undone or dropped. Knows no engine: somebody tells it the text.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from srbwriter.story.desk import Desk
from srbwriter.story.draft import JsonObject
from srbwriter.story.history import History
from srbwriter.story.reader import Reader
from srbwriter.story.streams import Streams
from srbwriter.story.types import NodeId
from srbwriter.story.typewriter import Typewriter
from srbwriter.story.words import well_formed


class Branches(Reader):
    """A story's branches in work. Verbs raise NoSuchNode, Refused, ReadOnlyStory or NotSaved."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk, Streams(desk))
        self._history = History(desk)
        self._typewriter = Typewriter(desk, self._history, self._streams)

    @contextmanager
    def _verb(self) -> Generator[None]:
        """One verb: under the lock, and typing ends as a unit."""
        with self._lock:
            self._typewriter.stop()
            yield

    def begin_branches(
        self,
        parent: NodeId,
        n: int,
        *,
        model: str = "",
        vocab: str = "",
        sampling: JsonObject | Sequence[JsonObject] = (),
        seeds: Sequence[int | None] = (),
    ) -> list[NodeId]:
        """``n`` empty branches that will be written; ``sampling`` is one for all or one each.

        They are not an action: nothing that was generated is ever undone.
        """
        each = [sampling] * n if isinstance(sampling, dict) else list(sampling) or [{}] * n
        numbers = list(seeds) or [None] * n
        if len(each) != n or len(numbers) != n:
            raise ValueError(f"{n} branches, {len(each)} samplings, {len(numbers)} seeds")
        with self._lock:
            return self._streams.begin(parent, n, model, vocab, each, numbers)

    def stream(
        self,
        branch: NodeId,
        text: str,
        ids: Sequence[int] = (),
        logprobs: Sequence[float | None] | None = None,
        *,
        lead: str = "",
    ) -> None:
        """More of a branch. It is on the disk within a second; a failure shows in :attr:`trouble`.

        ``lead`` is what the first ids say that already stood before (token healing).
        """
        with self._lock:
            self._streams.add(branch, well_formed(text), ids, logprobs, lead)

    def replace_stream(
        self,
        branch: NodeId,
        text: str = "",
        ids: Sequence[int] = (),
        logprobs: Sequence[float | None] | None = None,
        *,
        keep: bool = True,
    ) -> NodeId:
        """The branch begins again, with ``text``; returns its name from now on.

        What it had written stays as a node of its own, with the old number; with ``keep=False`` it is
        dropped, unless the writer has already taken some of it.
        """
        with self._lock:
            return self._streams.replace(branch, well_formed(text), ids, logprobs, keep)

    def interject(self, branch: NodeId, text: str) -> NodeId:
        """Words of the writer at the end of a branch that goes on being written; returns their node."""
        with self._verb(), self._history.action("type", self._streams.target(branch)) as action:
            return self._streams.interject(action, branch, well_formed(text))

    def finish(self, branch: NodeId, reason: str) -> None:
        """The branch is written; on the disk when this returns."""
        with self._lock:
            self._streams.finish(branch, reason)

    def target(self, branch: NodeId) -> NodeId:
        """The node that a branch's text goes to now."""
        with self._lock:
            return self._streams.target(branch)

    def flush(self) -> None:
        """Write all streamed words now. Raises NotSaved; they are kept and tried again."""
        with self._lock:
            self._streams.flush()
