"""Rounds by the place they were written at, and taking a branch of one into the story."""

from __future__ import annotations

from srbwriter.story import NodeId, Story

from .rounds import Round

_MOST = 24


class Past:
    """The last rounds, so that going back shows the branches that were written there."""

    def __init__(self) -> None:
        self._rounds: dict[NodeId, Round] = {}

    def remember(self, current: Round) -> None:
        self._rounds.pop(current.parent, None)
        self._rounds[current.parent] = current
        while len(self._rounds) > _MOST:
            del self._rounds[next(iter(self._rounds))]

    def at(self, node: NodeId) -> Round | None:
        """The last round that went on from ``node``."""
        return self._rounds.get(node)


def take(story: Story, current: Round, index: int, upto: int | None, text: str | None) -> NodeId:
    """Make branch ``index`` of ``current``, or its first ``upto`` characters, part of the story.

    ``text`` replaces what was taken. Where the story has grown or changed since the branches began, a
    copy of what is taken follows the text as it is now.
    """
    current.settle(index)
    written = current.branches[index].text
    shown = len(written) if upto is None else max(0, min(upto, len(written)))
    found = current.find(index, shown) if _stands_at(story, current.parent) else None
    if found is None:
        [copy] = story.add(story.current, [written[:shown]], "model")
        found = copy, 0
    node, at = found
    picked = story.pick(node, at or None)
    if text is not None:
        picked = story.edit(picked, text)
        story.visit(picked)
    story.flush()
    return picked


def _stands_at(story: Story, node: NodeId) -> bool:
    """Whether the text up to the current node is that of ``node``."""
    here = story.current
    return here == node or (story.is_living(node) and story.text(here) == story.text(node))
