"""The recorder over the real engine: every word of a branch once, and where it belongs."""

from __future__ import annotations

from typing import Any

import pytest

from srbwriter.engine.generation import Buffer
from srbwriter.engine.types import Stop
from srbwriter.session import Round, Session
from srbwriter.session import session as module
from srbwriter.story import NodeId

from .test_session import OPENING, begun, until, written


def long_round(session: Session, n: int = 2) -> Round:
    """Branches that are still being written."""
    session.stop = Stop(max_tokens=400, ignore_eog=True)
    session.set_text(OPENING)
    current = session.generate(n)
    until(session, lambda: len(current.branches) == n and all(len(b.text) > 30 for b in current.branches))
    return current


def test_a_pick_takes_the_node_though_the_branch_goes_on_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = long_round(session)
    settle = module.settle

    def late(current: Round, index: int) -> None:
        settle(current, index)
        current.branches[index].buffer.pieces.append(" late")

    monkeypatch.setattr(module, "settle", late)
    assert session.pick(0) == current.node_of(0)


@pytest.mark.parametrize("upto", [None, 30])
def test_a_branch_that_is_edited_when_it_is_picked_is_one_thing_to_undo(
    session: Session, upto: int | None
) -> None:
    """Also where it is kept in several nodes, as it went on after its end."""
    current = begun(session)
    session.steer(0, "extend", stop=6)
    written(session, current)
    shown = current.branches[0].text
    assert len(session.story.path(current.node_of(0))) >= 3
    words = shown[:20] + " MOOR" + shown[20:upto] + " END."
    session.pick(0, upto, words)
    assert session.text() == OPENING + words
    last = session.story.node(session.node)
    assert last.author == "edited" and any(span.ids for span in last.spans)
    assert session.undo()
    assert session.text() == OPENING
    assert OPENING + shown in [session.story.text(node) for node in session.story.reading_order()]
    assert session.redo()
    assert session.text() == OPENING + words


def test_a_pick_where_the_story_has_changed_is_one_thing_to_undo(session: Session) -> None:
    current = begun(session)
    session.story.end_typing()
    session.set_text(f"{OPENING} Zebra.")
    session.pick(2)
    assert session.text() == f"{OPENING} Zebra.{current.branches[2].text}"
    assert session.undo()
    assert session.text() == f"{OPENING} Zebra."
    assert session.undo()
    assert session.text() == OPENING


def test_the_first_word_of_a_branch_rolled_again_may_arrive_while_it_is_saved(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = begun(session)
    branch, begin = current.branches[0], session.story.begin_branch
    anew = branch.buffer = Buffer(branch.buffer.revision + 1)

    def late(parent: NodeId, **fields: Any) -> NodeId:
        anew.pieces.append(" Anew")
        return begin(parent, **fields)

    monkeypatch.setattr(session.story, "begin_branch", late)
    session.keep()
    assert session.story.node(current.node_of(0)).text == current.tracks[0].text == " Anew"


def test_a_branch_rolled_again_before_its_first_word_leaves_no_empty_passage(session: Session) -> None:
    session.set_text(OPENING)
    current = session.generate(2)
    until(session, lambda: len(current.tracks) == 2)
    for _ in range(4):
        session.steer(0, "reroll")
        session.keep()
    written(session, current)
    story = session.story
    assert all(node.text for node in story.nodes(story.children(story.current)))
