"""A branch is steered while it is written: by a note, to an end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.remote.options import RemoteLoader, RemoteOptions
from srbwriter.engine.types import BranchState, NoRoom, Sampling, Stop
from srbwriter.session import Session
from srbwriter.session.round import NOTE
from srbwriter.session.steering import Steering, insert_near_end
from srbwriter.story import Story
from srbwriter.tui.write.status import branch_facts
from tests.engine.peers import served
from tests.engine.support import exact_model
from tests.fakes.shared_model import load_engine

from .conftest import OPTIONS, WAIT, open_session, ready, written

OPENING = "Once upon a time there was a fox.\nHe lived in the wood."
LONG = Stop(max_tokens=200, ignore_eog=True)


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    model, greedy = bundled_model(), Sampling(temperature=0.0)
    with open_session(file, OPENING, model, n=2, sampling=greedy, stop=LONG) as opened:
        yield opened


def begun(session: Session, tokens: int = 8) -> Steering:
    """Branches with at least some tokens, paused where the engine can."""
    session.generate()
    for branch in session.round.branches:
        for _ in branch.generation.events(timeout=WAIT):
            if len(branch.ids) >= tokens:
                break
        if isinstance(session.engine, Engine):
            branch.pause()
    if isinstance(session.engine, Engine):
        session.engine.call(lambda: None)
    return Steering.of(session)


def settled(session: Session) -> list[str]:
    """The texts once all is written and kept."""
    for branch in session.round.branches:
        if branch.state is BranchState.PAUSED:
            branch.resume()
    texts = written(session)
    return texts


def kept(session: Session, index: int = 0) -> object:
    return session.story.node(session.round.node_of(index)).meta.get(NOTE)


def test_a_note_stands_before_the_last_line_for_this_branch_alone(session: Session) -> None:
    steering = begun(session)
    branch, other = session.round.branches
    before = branch.ids
    steering.put_note(0, "The fox\n is  sad.")
    note = session.engine.tokenize_continuation("The fox is sad.\n")
    prompt = insert_near_end(session.engine, branch.generation.prompt_ids, note)
    assert "a fox.\nThe fox is sad.\nHe lived" in session.engine.detokenize(prompt)
    assert steering.note(0) == "The fox is sad." and not steering.note(1)
    assert "note" in branch_facts(session, 0) and "note" not in branch_facts(session, 1)
    texts = settled(session)
    assert texts[0] != texts[1] and branch.ids[: len(before)] == before
    assert kept(session) == "The fox is sad." and kept(session, 1) is None
    assert "sad" not in session.text()
    steering.put_note(0, "")
    assert steering.note(0) == "" and other.text == texts[1]


def test_a_note_without_room_is_refused(file: Path) -> None:
    greedy = Sampling(temperature=0.0)
    with open_session(file, OPENING, exact_model(), n=2, sampling=greedy, stop=LONG) as session:
        steering = begun(session)
        with pytest.raises(NoRoom, match="choose a shorter note"):
            steering.put_note(0, "The fox is sad. " * 1000)
        assert steering.note(0) == ""
        texts = settled(session)
        assert texts[0] == texts[1]


def test_branches_of_an_earlier_session_follow_their_note_again(file: Path, session: Session) -> None:
    steering = begun(session)
    steering.put_note(0, "The fox is sad.")
    settled(session)
    session.close()
    again = Session(Story.open(file), EngineLoader(bundled_model(), OPTIONS, load_engine), options=OPTIONS)
    try:
        ready(again)
        steering = Steering.of(again)
        assert again.round is not None and not again.round.taken_up
        assert steering.note(0) == "The fox is sad." and not steering.note(1)
        again.steer(0, "extend", stop=2)
        written(again)
        assert again.round.taken_up and steering.note(0)
    finally:
        again.close()


@pytest.fixture(scope="module")
def over_there() -> Iterator[Engine]:
    with load_engine(bundled_model(), OPTIONS) as engine:
        yield engine


@pytest.fixture(scope="module")
def url(over_there: Engine) -> Iterator[str]:
    with served(over_there) as address:
        yield address


@pytest.mark.parametrize("dialect", ["srb", "openai"])
def test_a_branch_elsewhere_is_steered_as_far_as_its_engine_allows(
    file: Path, over_there: Engine, url: str, dialect: str
) -> None:
    story = Story.create(file)
    story.append(OPENING)
    loader = RemoteLoader(RemoteOptions(url, dialect=dialect))
    greedy = Sampling(temperature=0.0)
    session = Session(
        story, loader, n=2, sampling=greedy, stop=Stop(max_tokens=200, ignore_eog=dialect == "srb")
    )
    try:
        ready(session)
        steering = begun(session, 4)
        branch = session.round.branches[0]
        so_far = branch.text
        note = f"The fox is sad and wants to go home, says {dialect}."
        steering.put_note(0, note)
        texts = settled(session)
        assert texts[0].startswith(so_far)
        noted = over_there.tokenize(OPENING.replace("\n", f"\n{note}\n"), add_bos=True)
        assert over_there.resident(noted) >= len(noted) - 1, "it went on after the note"
    finally:
        session.close()
