"""Picks without waiting: what follows is written while the writer reads, and is in no story till then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter.engine.generation import Generation
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import BranchState, Priority, Stop
from srbwriter.session import Round, Session
from srbwriter.session.ahead import Budget
from srbwriter.story import ROOT, Story
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import OPTIONS, WAIT, open_session
from .test_session import OPENING, begun, until, written

FOCUSED, ALL = Budget("focused", 4096), Budget("all", 4096)


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    """A writer who reads the panes of a round that is over."""
    with open_session(file, model=short_model()) as session:
        begun(session)
        yield session


def ready(session: Session, *panes: int) -> list[Generation]:
    """Wait until all that follows these panes is written ahead; what was written."""
    until(session, lambda: all(session.look_ahead.share(pane) == 1.0 for pane in panes))
    return [ahead.generation for ahead in session.look_ahead._rounds]


def generated(session: Session) -> int:
    return session.engine.stats().generated_tokens


def nodes(session: Session) -> int:
    session.keep()
    return len(session.story)


def test_a_pick_shows_the_next_panes_filled_at_once(session: Session) -> None:
    session.look_ahead.focus(2)
    session.look_ahead.budget = FOCUSED
    ready(session, 2)
    before, shown = generated(session), session.round.branches[2].text if session.round else ""
    session.pick(2)
    current = session.generate()
    assert current.generation.done
    assert all(len(branch.ids) == 24 for branch in current.branches), (
        "text stands there when generate returns"
    )
    assert generated(session) == before
    assert session.text() == OPENING + shown
    generation = written(session, current)
    until(session, lambda: generation.request.priority is Priority.NORMAL)
    texts = [session.story.node(node).text for node in session.story.children(session.node)]
    assert texts == [branch.text for branch in current.branches]


def test_nothing_that_was_not_picked_is_in_the_story(session: Session, file: Path) -> None:
    before = nodes(session)
    session.look_ahead.budget = ALL
    ready(session, *range(4))
    unpicked = [b.text for a in session.look_ahead._rounds for b in a.generation.branches]
    assert len(unpicked) == 16
    assert nodes(session) == before
    session.pick(1)
    written(session, session.generate())
    assert nodes(session) == before + 4
    session.close()
    with closing(Story.open(file)) as story:
        assert len(story) == before + 4
    raw = file.read_bytes()
    picked = {branch.text for branch in session.round.branches} if session.round else set()
    assert not [text for text in unpicked if text not in picked and text.encode() in raw]


def worthless(session: Session, early: list[Generation]) -> Round:
    """Pick: of what was written ahead, ``early`` must not be shown."""
    session.pick(0)
    current = session.generate()
    assert early
    assert current.generation not in early
    return current


@pytest.mark.parametrize("what", ["n", "stop", "note", "lore"])
def test_anything_else_that_is_asked_makes_it_worthless(session: Session, what: str) -> None:
    session.look_ahead.budget = FOCUSED
    early = ready(session, 0)
    story = session.story
    if what == "n":
        session.n = 3
    elif what == "stop":
        session.stop = replace(session.stop, max_tokens=7)
    else:
        settings = story.node(ROOT).settings
        changed = (
            replace(settings, author_note="Rain.") if what == "note" else replace(settings, memory="A hen.")
        )
        session.together(lambda: story.put_settings(ROOT, changed))
    worthless(session, early)


def test_typed_words_make_it_worthless(session: Session) -> None:
    session.look_ahead.budget = ALL
    early = ready(session, *range(4))
    session.set_text(session.text() + " And so")
    until(session, lambda: not session.look_ahead._rounds)
    for generation in early:  # the engine ends them in its next step
        assert generation.wait(60)
    assert all(not branch.live for generation in early for branch in generation.branches)
    session.keep()
    worthless(session, early)


def test_the_focus_goes_first_and_all_follow(session: Session) -> None:
    session.look_ahead.focus(3)
    session.look_ahead.budget = ALL
    ready(session, *range(4))
    assert [a.index for a in session.look_ahead._rounds][0] == 3


def test_only_the_focused_one_unless_all_are_wanted(session: Session) -> None:
    session.look_ahead.focus(1)
    session.look_ahead.budget = FOCUSED
    ready(session, 1)
    session.look_ahead.focus(2)
    ready(session, 2)
    assert {a.index for a in session.look_ahead._rounds} == {1, 2}


def test_the_budget_is_kept_and_a_pick_goes_on_beyond_it(session: Session) -> None:
    session.look_ahead.budget = Budget("all", 40)
    until(session, lambda: session.look_ahead.spent >= 40 and not session.look_ahead.working)
    assert session.look_ahead.spent <= 40 + 2 * session.n, "a step or so more"
    session.pick(0)
    current = session.generate()
    assert written(session, current).done
    assert all(len(branch.ids) == 24 for branch in current.branches)
    assert all(branch.state is BranchState.DONE for branch in current.branches)


def test_branches_of_an_earlier_sitting_are_written_ahead_of(session: Session, file: Path) -> None:
    shown = session.round.branches[1].text if session.round else ""
    session.close()
    loader = EngineLoader(short_model(), OPTIONS, load_engine)
    stop = Stop(max_tokens=24, ignore_eog=True)
    with closing(Session(Story.open(file), loader, n=4, stop=stop, options=OPTIONS)) as session:
        session.look_ahead.budget = FOCUSED
        session.look_ahead.focus(1)
        loader.wait(WAIT)
        ready(session, 1)
        before = generated(session)
        session.pick(1)
        current = session.generate()
        assert session.text() == OPENING + shown
        assert current.generation.done
        assert generated(session) == before


def test_a_round_written_ahead_is_steered_as_any_other(session: Session) -> None:
    session.look_ahead.budget = FOCUSED
    ready(session, 0)
    session.pick(0)
    current = session.generate()
    old = [branch.text for branch in current.branches]
    session.steer(1, "reroll")
    session.steer(2, "extend", stop=6)
    session.add_branches(1)
    written(session, current)
    texts = [branch.text for branch in current.branches]
    assert texts[0] == old[0]
    assert texts[1] != old[1]
    assert texts[2].startswith(old[2])
    kept = [session.story.node(node).text for node in session.story.children(current.parent)]
    assert old[1] in kept


def test_turned_off_it_is_thrown_away(session: Session) -> None:
    session.look_ahead.budget = ALL
    ready(session, 0)
    session.look_ahead.budget = Budget()
    until(session, lambda: not session.look_ahead._rounds)
