"""Words of today: those that actions of today typed and picked; undo takes them off again."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.story import ROOT, Story
from srbwriter.story.draft import StoryDraft
from srbwriter.story.node import Node
from tests.story.branches import added, generated


@pytest.fixture
def now(story: Story) -> list[float]:
    """The writer's clock; add to it for another day."""
    clock = [1_000_000_000.0]
    story.clock = lambda: clock[0]
    story._last_change = clock[0]
    return clock


def today(story: Story) -> int:
    return story.today().words


def test_an_opening_and_an_import_count_nothing_until_something_is_written(tmp_path: Path) -> None:
    draft = StoryDraft(current=2)
    draft.nodes[2] = Node(2, 1, text="Once upon a time")
    draft.nodes[3] = Node(3, 2, author="model", text=" there was", visited=False)
    with Story.from_draft(tmp_path / "a.srbw", draft) as story:
        assert today(story) == 0
        story.pick(3)
        assert today(story) == 2
    with Story.create(tmp_path / "b.srbw") as story:
        [opening] = added(story, ROOT, ["The rain had come early."], "imported", stand=True)
        assert (story.current, today(story)) == (opening, 0)
        story.append(" It stayed.")
        assert today(story) == 2
        for _ in range(2):
            story.undo()
        assert (story.text(story.current), today(story)) == ("", 0)
        for _ in range(2):
            story.redo()
        assert (story.words(story.current), today(story)) == (7, 2)


def test_a_pick_counts_what_it_brings_into_the_story(story: Story) -> None:
    story.append("one two three")
    one, two = generated(story, story.current, " four five six", " seven")
    assert today(story) == 3  # a take that nobody picked counts for nothing
    story.pick(one, 10)
    assert today(story) == 5
    story.pick(one)  # two of its words are there already
    assert today(story) == 6
    for _ in range(2):
        story.undo()
    assert today(story) == 3
    story.pick(two)
    assert today(story) == 4


def test_a_word_that_a_pick_finishes_is_one_word(story: Story) -> None:
    story.append("one tw")
    [take] = generated(story, story.current, "o three")
    story.pick(take)
    assert today(story) == 3


def test_undo_takes_words_off_the_day_on_which_they_were_written(story: Story, now: list[float]) -> None:
    story.append("one two three")
    story.end_typing()
    now[0] += 86_400
    story.append(" four")
    story.undo()
    story.undo()
    assert [day.words for day in story.days().values()] == [0, 0]
    now[0] += 86_400
    story.redo()
    story.redo()
    assert [day.words for day in story.days().values()] == [3, 1]


def test_verbs_of_one_transaction_all_count_or_none_does(story: Story) -> None:
    with story.together():
        story.append("one two")
        [take] = generated(story, story.current, " three")
        story.pick(take)
    with pytest.raises(RuntimeError), story.together():
        story.append(" four")
        raise RuntimeError
    story.append(" five")
    assert today(story) == 4
