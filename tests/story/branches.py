"""Branches as a model writes them, for tests without one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from srbwriter.story import Edit, Story
from srbwriter.story.model import Author
from srbwriter.story.node import Node
from srbwriter.story.spans import plain

WORDS = "It was a dark and stormy night. " * 40


def sizes(vocab: str, ids: Sequence[int]) -> Sequence[int]:
    """A vocabulary in which token n is n % 4 characters long."""
    return [n % 4 for n in ids]


def added(
    story: Story, parent: int, texts: Sequence[str], author: Author = "writer", *, stand: bool = False
) -> list[int]:
    """Branches below ``parent``; with ``stand``, the last one is the current node."""
    with story.verb("add", parent):
        made = [story.add_node(parent, plain(text, author), author).id for text in texts]
        story.put("current", made[-1] if stand else story.current)
    return made


def set_text(story: Story, text: str) -> int:
    """Make ``text`` the text up to the current node; return where it ends."""
    return story.replace(Edit(0, story.chars(story.current), text))


def bookmarks(story: Story) -> list[int]:
    """The bookmarked nodes in reading order."""
    return [node for node in story.reading_order() if story.node(node).bookmark]


def generated(story: Story, parent: int, *texts: str) -> list[int]:
    """Finished branches below ``parent``, in tokens of three characters."""
    names = [story.begin_branch(parent, model="m", vocab="v", seed=seed) for seed in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        story.stream(name, text, [3] * (len(text) // 3))
        story.finish(name, "length")
    return names


def readable(story: Story) -> list[Node]:
    """The living nodes in reading order, the current one last; without the numbers that order siblings."""
    nodes = [*story.reading_order(), story.current]
    return [replace(node, place=0) for node in story.nodes(nodes)]
