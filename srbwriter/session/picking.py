"""Picks: how a branch becomes part of the story, also after the text before it has changed."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from srbwriter.story import ROOT, NodeId, Refused, Story

from .prefix import END_CHARS, Prefix
from .recorder import Recorder
from .rounds import Round


class Picking:
    """Picks branches into ``story``, and checks whether they still follow its text."""

    def __init__(self, story: Story, recorder: Recorder) -> None:
        self._story, self._recorder = story, recorder
        self._changes = 0
        self._known: tuple[int, Round, bool] | None = None  # the last result

    def text_may_differ(self) -> None:
        """Discard the last result after typing or a verb."""
        self._changes += 1

    def is_stale(self, current: Round | None) -> bool:
        """Return whether the text before the branches of ``current`` has changed since they were requested.

        The result is cached until the text may have changed.
        """
        if current is None or current.prefix is None:
            return False
        changes, known = self._changes, self._known
        if known is not None and known[0] == changes and known[1] is current:
            return known[2]
        stale = not current.prefix_fits(self._story.text(self._story.current))
        self._known = changes, current, stale
        return stale

    def keep_prefix(self, current: Round) -> None:
        """Store the text before the branches of ``current``, which begin now."""
        changes = self._changes
        current.prefix = Prefix.of(self._story.text(current.parent))
        if self._story.current == current.parent:
            self._known = changes, current, False  # so that the whole text need not be read again

    def joined(self, current: Round, text: str) -> str:
        """Return ``text``, the beginning of a branch, as a pick would append it to the present story."""
        story = self._story
        if current.prefix is None:
            return text
        return current.prefix.join(story.text(story.current, END_CHARS), text)

    def take(self, current: Round, index: int, upto: int | None, text: str | None) -> NodeId:
        """Pick branch ``index``, within a transaction; see :meth:`Session.pick`."""
        self._recorder.settle(current, index)
        story, own = self._story, _beginning(current, index, upto)  # later text stays in the branch
        found = self.find(current, index, upto)
        joined = self.joined(current, own) if text is None else text
        if found is None:
            return story.pick_as(story.current, joined, own)
        node, at = found
        if text is not None or joined != own:
            return story.pick_as(current.parent, joined, own, node)
        return story.pick(node, at or None)

    def find(self, current: Round, index: int, upto: int | None) -> tuple[NodeId, int] | None:
        """Return the node and the offset at which the first ``upto`` characters of branch ``index`` end.

        None if they do not follow the text up to the current node.
        """
        if not self._is_at(current.parent):
            return None
        return current.find(index, len(_beginning(current, index, upto)))

    def _is_at(self, node: NodeId) -> bool:
        """Whether the text up to the current node is that of ``node``."""
        story, here = self._story, self._story.current
        return here == node or (story.is_living(node) and story.text(here) == story.text(node))


def _beginning(current: Round, index: int, upto: int | None) -> str:
    text = current.tracks[index].text
    return text if upto is None else text[: max(0, upto)]


def cut(story: Story, place: int) -> tuple[NodeId, NodeId | None]:
    """Return the node that ends at character ``place`` of the text, and the node cut off it, or None.

    Raises Refused at the beginning of the story.
    """
    story.end_typing()
    nodes = story.nodes(story.path(story.current))
    ends = list(accumulate(len(node.text) for node in nodes))
    index = bisect_left(ends, place)
    node = nodes[min(index, len(nodes) - 1)]
    at = place - (ends[index - 1] if index else 0)
    if node.id == ROOT:
        raise Refused("this is the beginning of the story; there is nothing before it")
    return node.id, story.split(node.id, at) if at < len(node.text) else None
