"""Going back and forth between rounds: what is shown belongs to where the writer stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import NoModel, Stop
from srbwriter.session import Session
from srbwriter.session.round import read_round
from srbwriter.story import Story
from srbwriter.story.spans import plain
from tests.fakes.short_model import short_model

from .conftest import OPTIONS
from .test_session import OPENING, written


def test_a_recalled_branch_that_writes_again_is_kept(session: Session) -> None:
    session.set_text(OPENING)
    first = session.generate()
    written(session, first)
    session.pick(0)
    written(session, session.generate())
    session.undo()
    session.steer(3, "reroll")
    written(session, first)
    assert session.story.text(first.node_of(3)) == OPENING + first.branches[3].text


def test_a_branch_whose_beginning_was_undone_brings_it_back_for_good(file: Path, session: Session) -> None:
    session.set_text(OPENING)
    session.story.end_typing()
    session.set_text(OPENING + " The cat sat.")
    first = session.generate()
    written(session, first)
    node = first.node_of(2)
    session.undo()
    assert session.text() == OPENING
    session.story.pick(node)  # as the tree or a program may
    wanted = session.text()
    assert wanted == OPENING + " The cat sat." + first.branches[2].text
    session.close()
    with Story.open(file) as story:
        assert story.text(story.current) == wanted
        story.undo()
        assert story.text(story.current) == OPENING


def test_a_picked_part_is_no_branch_of_its_round(session: Session) -> None:
    session.set_text(OPENING)
    story = session.story
    with story.verb("add", story.current):  # as of an import, whose branches know no round
        above = story.current
        branch = [story.add_node(above, plain(text, "model"), "model").id for text in ("One two.", "Three.")][
            0
        ]
    story.pick(branch, 3)
    assert session.text() == OPENING + "One"
    shown = read_round(story, above)
    assert shown is not None and [branch.text for branch in shown.branches] == ["One two.", "Three."]


def test_a_reopened_story_shows_what_was_written_where_it_was_left(file: Path, session: Session) -> None:
    session.set_text(OPENING)
    first = session.generate()
    written(session, first)
    texts = [branch.text for branch in first.branches]
    session.close()
    loader = EngineLoader(short_model(), OPTIONS)
    again = Session(Story.open(file), loader, n=2, stop=Stop(max_tokens=4), options=OPTIONS)
    try:
        shown = again.round
        assert [branch.text for branch in shown.branches] == texts
        assert not any(branch.live for branch in shown.branches)
        with pytest.raises(NoModel, match="still loading"):
            again.steer(1, "extend")
        again.loader.wait(60)
        again.pick(2, 5)
        assert again.text() == OPENING + texts[2][:5]
        assert len(again.story) == len(texts) + 3  # root, opening, and the rest of what was picked from
        again.undo()
        assert again.round is shown
        written(again, again.generate())
        assert again.round is not shown
    finally:
        again.close()
