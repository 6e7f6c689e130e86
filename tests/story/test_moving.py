"""Moving a node, with all that follows it, below another one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from srbwriter.story import ROOT, NodeId, NoSuchNode, Refused, Settings, Story
from tests.sizes import examples
from tests.story.branches import generated, sizes
from tests.story.machine import without_waiting


def test_what_was_moved_is_the_last_child_and_undo_puts_it_where_it_was(story: Story) -> None:
    a, b, c = story.add(ROOT, ["a", "b", "c"])
    [d] = story.add(a, ["d"])
    story.move(b, a)
    assert (story.children(a), story.children(ROOT)) == ([d, b], [a, c])
    story.move(b, ROOT)
    assert story.children(ROOT) == [a, c, b]
    story.undo()
    story.undo()
    assert (story.children(ROOT), story.children(a)) == ([a, b, c], [d])


def test_settings_are_those_of_the_new_place(story: Story) -> None:
    one, two = story.add(ROOT, ["one", "two"])
    [node] = story.add(one, ["x"])
    story.put_settings(one, Settings(memory="of one", author_note="note"))
    story.put_settings(two, Settings(memory="of two"))
    story.move(node, two)
    assert (story.settings(node).memory, story.settings(node).author_note) == ("of two", None)


def test_moves_that_cannot_be_are_refused_in_words(story: Story) -> None:
    [top] = story.add(ROOT, ["a"])
    [low] = story.add(top, ["b"])
    [binned] = story.add(ROOT, ["c"])
    story.delete(binned)
    for move, words in (
        (lambda: story.move(top, low), f"node {top} cannot be moved below node {low}, which follows it"),
        (lambda: story.move(top, top), f"node {top} cannot be moved below itself"),
        (lambda: story.move(low, top), f"node {low} follows node {top} already"),
        (lambda: story.move(ROOT, low), "the root of the story cannot be moved"),
    ):
        refused(move, words)
    for move in (
        lambda: story.move(low, binned),
        lambda: story.move(binned, low),
        lambda: story.move(low, 99),
    ):
        with pytest.raises(NoSuchNode):
            move()
    assert story.text(low) == "ab"


def refused(move: Callable[[], None], words: str) -> None:
    with pytest.raises(Refused) as raised:
        move()
    assert words in str(raised.value)


def test_nothing_is_moved_away_from_a_model_that_writes(story: Story) -> None:
    one, two = story.add(ROOT, ["one", "two"])
    [branch] = story.begin_branches(one, 1, model="m", vocab="v")
    story.stream(branch, "abc", [3])
    for move in (
        lambda: story.move(one, two),
        lambda: story.move(branch, two),
        lambda: story.move(two, branch),
    ):
        refused(move, f"node {branch} is still being written")
    story.move(two, one)  # neither is at work
    story.finish(branch, "length")
    story.move(branch, two)
    assert story.text(branch) == "onetwoabc"


def test_a_token_that_began_in_the_words_before_stays_with_its_node(story: Story) -> None:
    """Its ids are used where the words before end as they did, and are kept where they do not."""
    one, two = story.add(ROOT, ["He ", "He went"])
    [branch] = story.begin_branches(one, 1, model="m", vocab="v")
    story.stream(branch, "ran", [3, 1], lead=" ")
    story.finish(branch, "length")
    story.move(branch, two)
    [span] = story.node(branch).spans
    assert (span.text, span.ids, span.lead, story.text(branch)) == ("ran", (3, 1), " ", "He wentran")


# -- any number of moves -------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("move", "move", "move", "split", "merge", "edit", "delete", "visit", "undo")),
        st.integers(0, 1000),
        st.integers(0, 1000),
    ),
    max_size=25,
)


def seen(story: Story) -> dict[str, Any]:
    """Everything of the tree, the bin with it."""
    tree = story._document.tree
    living = list(story.reading_order())
    return {
        "nodes": [(node.id, node.parent, node.spans, node.author) for node in story.nodes(living)],
        "texts": [story.text(node) for node in living],
        "bin": [(node, tree.all_children(node), story.node(node).spans) for node in story.bin()],
    }


def step(story: Story, verb: str, one: int, other: int) -> None:
    nodes = sorted(story.reading_order())
    node, target = nodes[one % len(nodes)], nodes[other % len(nodes)]
    match verb:
        case "move":
            move(story, node, target)
        case "split":
            story.split(node, 1 + other % 3)
        case "merge":
            story.merge(node)
        case "edit":
            story.set_text(story.text(node) + "x" * (other % 3) + "y", node)
        case "delete":
            story.delete(node)
        case "visit":
            story.visit(node)
        case _:
            story.undo()


def move(story: Story, node: NodeId, target: NodeId) -> None:
    """Move, and check that no node and no word is lost, whatever the move was."""
    order = sorted(story.reading_order())
    spans = {node: story.node(node).spans for node in order}
    own = story.node(node).text
    try:
        story.move(node, target)
    finally:
        assert sorted(story.reading_order()) == order
        assert {node: story.node(node).spans for node in order} == spans
    assert story.text(node) == story.text(target) + own
    assert story.parent(node) == target and story.path(node)[0] == ROOT


@given(steps=STEPS)
@hypothesis_settings(max_examples=examples(80, few=10), deadline=None)
def test_no_sequence_of_moves_loses_a_node_or_a_word(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.srbw"
        with without_waiting(Story.create(file)) as story:
            story.use_token_sizes(sizes)
            one, two = story.add(ROOT, ["One. ", "Two. "])
            for parent in (one, two):
                for branch in generated(story, parent, "abcdef", "ghi"):
                    generated(story, branch, "jkl")
            begun, head = seen(story), story._history.head
            for verb, first, second in steps:
                try:
                    if verb != "undo" or story._history.head != head:
                        step(story, verb, first, second)
                except (Refused, NoSuchNode):
                    pass
            ended, done = seen(story), 0
            while story._history.head != head:
                story.undo()
                done += 1
            undone = seen(story)
            assert (undone["nodes"], undone["texts"]) == (begun["nodes"], begun["texts"])
            for _ in range(done):
                story.redo()
            assert seen(story) == ended
        with Story.open(file) as story:
            assert seen(story) == ended
