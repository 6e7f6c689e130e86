"""Words on an open sheet outlive the program, whatever kills it."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.session.drafts import Draft, take_up, waiting
from srbwriter.story import ROOT, Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story.create(tmp_path / "story.srbw", "Rain")


def test_words_are_there_until_they_are_dropped(story: Story) -> None:
    draft, other = Draft(story, "memory"), Draft(story, "author_note")
    assert draft.words is None and waiting(story) == []
    draft.keep("A harb")
    draft.keep("A harbour.")
    other.keep("Slowly.")
    with Story.open(story.file, readonly=True) as again:
        assert Draft(again, "memory").words == "A harbour."
        assert waiting(again) == ["memory", "author_note"]
    draft.drop()
    draft.drop()
    assert draft.words is None and other.words == "Slowly."


def test_words_for_the_story_become_a_node(story: Story) -> None:
    node = story.append("It rained.", ROOT)
    Draft.below(story, node, 2).keep(" All night.")
    Draft.below(story, node, 3).keep(" \n")
    Draft(story, "memory").keep("A harbour.")
    assert Draft.below(story, node, 2).words is None  # nothing to go on with: they will be in the tree
    assert take_up(story) == 1
    assert [story.text(child) for child in story.children(node)] == ["It rained. All night."]
    assert waiting(story) == ["memory"]


@pytest.mark.parametrize("place", ["below:4711", "below:-1", "below:", "below:x"])
def test_words_without_a_place_do_no_harm(story: Story, place: str) -> None:
    Draft(story, place).keep("Lost?")
    take_up(story)
    assert waiting(story) == []
    assert story.children(ROOT) == []


@pytest.mark.parametrize("kept", [7, ["a"], {"memory": 3}])
def test_a_damaged_value_is_no_draft(story: Story, kept: object) -> None:
    story.put_value("drafts", kept)
    assert Draft(story, "memory").words is None
    take_up(story)
    Draft(story, "memory").keep("Still works.")
    assert Draft(story, "memory").words == "Still works."
