"""The workspace: a session opened again shows the branches that were on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import Stop
from srbwriter.session import Round, Session
from srbwriter.session.session import SCREEN
from srbwriter.story import Story
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import OPTIONS, ready, write_round
from .test_session import OPENING, until

VIEW = {"cursor": 3}
TYPED = " Suddenly the door."


@contextmanager
def again(file: Path) -> Iterator[Session]:
    """A session that opens ``file`` again."""
    session = Session(
        Story.open(file), EngineLoader(short_model(), OPTIONS, load_engine), n=4,
        stop=Stop(max_tokens=24, ignore_eog=True), options=OPTIONS,
    )  # fmt: skip
    ready(session)
    yield session
    session.close()


def shown(session: Session) -> Round:
    return session.round


def texts(session: Session) -> list[str]:
    return [branch.text for branch in shown(session).branches]


def three_rounds(session: Session) -> Round:
    """Three rounds below one node, all ended; returns the last."""
    session.set_text(OPENING)
    for _ in range(3):
        last = write_round(session)
    return last


def test_branches_of_several_nodes_and_a_partly_picked_one_are_whole_again(
    file: Path, session: Session
) -> None:
    current = three_rounds(session)
    session.steer(1, "extend")
    session.steer(3, "reroll")
    until(session, lambda: len(current.branches[1].ids) == 48 and current.over)
    session.pick(2, upto=9)
    before = texts(session)
    session.close()
    with again(file) as later:
        assert texts(later) == before
        assert not later.stale
        later.undo()
        later.pick(0)
        assert later.text() == OPENING + before[0]


def test_undoing_picks_shows_the_branches_that_they_left(file: Path, session: Session) -> None:
    three_rounds(session)
    before = [texts(session)]
    for index in (1, 2):
        session.pick(index, upto=9 if index == 2 else None)
        write_round(session)
        before.append(texts(session))
    session.close()
    with again(file) as later:
        assert texts(later) == before[2]
        for expected in before[1::-1]:
            later.undo()
            assert texts(later) == expected
        later.set_text(OPENING + TYPED)
        later.generate(1)
    with again(file) as later:  # after words that were typed beside them
        later.undo()
        assert texts(later) == before[0]


def test_an_edited_pick_is_shown_as_the_model_wrote_it(file: Path, session: Session) -> None:
    three_rounds(session)
    before = texts(session)
    session.pick(1)
    picked = session.text()
    session.set_text(picked[: len(OPENING) + 3] + "Zebra" + picked[len(OPENING) + 3 :])
    session.close()
    with again(file) as later:
        assert texts(later) == before


def test_the_view_is_that_of_the_node_where_the_writer_stood(file: Path, session: Session) -> None:
    three_rounds(session)
    session.keep_view(VIEW)
    session.close()
    with Story.open(file) as story:
        assert SCREEN not in story.draft().values and f"local-{SCREEN}" not in story.draft().values
    with again(file) as later:
        assert later.view == VIEW
    with Story.open(file) as story:
        story.visit(1)
    with again(file) as later:
        assert later.view == {}
