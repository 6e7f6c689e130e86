"""Typing and editing: where words go, and what one undo takes back."""

from __future__ import annotations

import pytest

from srbwriter.story import ROOT, State, Story
from tests.story.branches import generated, sizes


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(story: Story) -> Clock:
    made = Clock()
    story._clock = made
    return made


# -- typing --------------------------------------------------------------------------------------------


def test_branches_begun_amid_typing_stay_below_what_is_typed(story: Story, clock: Clock) -> None:
    node = story.append("The cat")
    story.append(" sat.", story.append("!", node))
    story.edit(node, "The dog")
    [branch] = story.begin_branches(node, 1)
    story.stream(branch, " ran.")
    story.finish(branch, "length")
    clock.now += 0.1
    story.edit(node, "The dogs")
    assert story.parent(branch) == node
    assert story.text(branch) == "The dogs ran."
    story.undo()
    assert story.text(branch) == "The dog ran."


def test_keystrokes_of_one_sentence_are_one_action(story: Story, clock: Clock) -> None:
    for key in "It rained. Then":
        clock.now += 0.1
        story.append(key)
    assert story.text(story.current) == "It rained. Then"
    story.undo()
    assert story.text(story.current) == "It rained."
    story.redo()
    assert story.text(story.current) == "It rained. Then"
    story.undo()
    story.undo()
    assert story.current == ROOT
    assert len(story.bin()) == 1  # the words themselves are still there


def test_a_pause_ends_the_action(story: Story, clock: Clock) -> None:
    story.append("one ")
    clock.now += 10
    story.append("two")
    story.undo()
    assert story.text(story.current) == "one "


def test_long_typing_is_undone_in_pieces_at_words(story: Story, clock: Clock) -> None:
    for _ in range(100):
        for key in "word ":
            story.append(key)
    undone = 0
    while story.undo():
        undone += 1
        assert story.text(story.current)[-1:] in ("", " ")
    assert 2 <= undone <= 5


def test_deleting_and_retyping_in_one_place_is_one_action(story: Story, clock: Clock) -> None:
    node = story.append("The cat sat down.")
    story.end_typing()
    for text in ("The ca sat down.", "The c sat down.", "The co sat down.", "The cow sat down."):
        assert story.edit(node, text) == node
    story.undo()
    assert story.node(node).text == "The cat sat down."
    story.redo()
    assert story.node(node).text == "The cow sat down."


def test_edits_in_two_places_are_two_actions(story: Story, clock: Clock) -> None:
    node = story.append("The cat sat down.")
    story.end_typing()
    story.edit(node, "A cat sat down.")
    story.edit(node, "A cat sat up.")
    story.undo()
    assert story.node(node).text == "A cat sat down."


def test_half_a_character_does_not_stop_the_pen(story: Story) -> None:
    node = story.append("caf\udce9 \ud83d")
    assert story.node(node).text == "caf\ufffd \ufffd"
    story.mark(node, note="\udce9", title="\udce9", tags=["\udce9"])
    assert story.marks(node).title == "\ufffd"


# -- editing -------------------------------------------------------------------------------------------


def test_editing_generated_text_forks(story: Story) -> None:
    story.use_token_sizes(sizes)
    [branch, other] = generated(story, ROOT, "abcdefghi", "xyz")
    story.mark(branch, bookmark=True)
    fork = story.edit(branch, "abcdeQfghi")
    assert story.children(story.parent(branch)) == [branch, fork, other]
    assert story.node(branch).text == "abcdefghi"
    made = story.node(fork)
    assert (made.author, made.marks.bookmark, story.current) == ("edited", True, fork)
    assert [(span.text, span.ids, span.author) for span in made.spans] == [
        ("abc", (3,), "model"),
        ("de", (), "model"),
        ("Q", (), "writer"),
        ("f", (), "model"),
        ("ghi", (3,), "model"),
    ]


def test_more_edits_of_a_fork_stay_in_it(story: Story, clock: Clock) -> None:
    [branch] = generated(story, ROOT, "abc")
    fork = story.edit(branch, "abcd")
    assert story.edit(fork, "abcde") == fork
    clock.now += 10
    assert story.edit(fork, "abcdef") == fork
    story.undo()
    assert story.node(fork).text == "abcde"
    story.undo()
    assert story.node(fork).state is State.BINNED


def test_the_same_text_is_no_edit(story: Story) -> None:
    [branch] = generated(story, ROOT, "abc")
    assert story.edit(branch, "abc") == branch
    assert story.undo() is None
