"""A text that a person changed, as edits of the tree: what the model wrote is forked, never overwritten."""

from __future__ import annotations

from srbwriter.story import ROOT, NodeId, Story
from srbwriter.story.diff import same_end, same_start


def set_text(story: Story, text: str) -> None:
    """Make the text up to the current node ``text``; the current node may become another one."""
    current = story.current
    old = story.text(current)
    if text == old:
        return
    if text.startswith(old):
        story.visit(story.append(text[len(old) :], current))
        return
    start = same_start(old, text)
    end = same_end(old, text, min(len(old), len(text)) - start)
    _change(story, current, old, text, start, end)


def _change(story: Story, current: NodeId, old: str, text: str, start: int, end: int) -> None:
    """Characters from ``start`` to ``end`` before the end of ``old`` give way to others."""
    path = [n for n in story.path(current) if n != ROOT]
    spans = _spans(story, path)
    last_changed = max(start, len(old) - end - 1)
    first = next(i for i, (_, _, stop) in enumerate(spans) if start < stop or i == len(spans) - 1)
    last = next(i for i, (_, _, stop) in enumerate(spans) if last_changed < stop or i == len(spans) - 1)
    node, begin, _ = spans[first]
    rest = old[spans[last][2] :]
    changed = text[begin : len(text) - len(rest)]
    if first != last:
        replaced = [span[0] for span in spans[first : last + 1]]
        [fork] = story.add(story.parent(node) or ROOT, [changed], "edited", instead_of=replaced)
    else:
        fork = story.edit(node, changed)
        if fork == node:  # the writer's own words, changed in place: all below stays where it is
            story.visit(current)
            return
    if rest:
        behind = [span[0] for span in spans[last + 1 :]]
        [fork] = story.add(fork, [rest], "edited", instead_of=behind)
    story.visit(fork)


def _spans(story: Story, path: list[NodeId]) -> list[tuple[NodeId, int, int]]:
    """(node, first character, character after its last) along a path."""
    spans: list[tuple[NodeId, int, int]] = []
    position = 0
    for node in story.nodes(path):
        spans.append((node.id, position, position + len(node.text)))
        position += len(node.text)
    return spans
