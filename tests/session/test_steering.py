"""A branch is steered while it is written: by a note, to an end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.remote.options import RemoteLoader, RemoteOptions
from srbwriter.engine.types import BranchState, FinishReason, NoRoom, Sampling, Stop
from srbwriter.prose import sentence_ends
from srbwriter.session import Session
from srbwriter.session.round import NOTE
from srbwriter.session.steering import Steering, insert_near_end
from srbwriter.story import Story
from srbwriter.tui.write.status import marks
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
    assert steering.words(0) == ["note"] and "note" in marks(session, 0) and steering.words(1) == []
    texts = settled(session)
    assert texts[0] != texts[1] and branch.ids[: len(before)] == before
    assert kept(session) == "The fox is sad." and kept(session, 1) is None
    assert "sad" not in session.text()
    steering.put_note(0, "")
    assert steering.words(0) == [] and other.text == texts[1]


def test_a_note_without_room_is_refused(file: Path) -> None:
    greedy = Sampling(temperature=0.0)
    with open_session(file, OPENING, exact_model(), n=2, sampling=greedy, stop=LONG) as session:
        steering = begun(session)
        with pytest.raises(NoRoom, match="choose a shorter note"):
            steering.put_note(0, "The fox is sad. " * 1000)
        assert steering.note(0) == "" and steering.words(0) == []
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
        assert steering.words(0) == ["note"] and steering.words(1) == []
        assert steering.note(0) == "The fox is sad."
        again.steer(0, "extend", stop=2)
        written(again)
        assert again.round.taken_up and steering.words(0) == ["note"] and steering.words(1) == []
    finally:
        again.close()


def test_a_branch_ends_with_its_sentence_and_has_its_own_rule_again(session: Session) -> None:
    steering = begun(session)
    branch = session.round.branches[0]
    so_far = branch.text
    steering.end(0)
    assert steering.words(0) == ["last sentence"]
    text = settled(session)[0]
    assert branch.finish_reason is FinishReason.SENTENCE
    assert text.startswith(so_far) and sentence_ends(text[len(so_far) :]) == [len(text) - len(so_far)]
    session.engine.call(lambda: None)
    assert branch.stop_rule == session.round.branches[1].stop_rule and steering.words(0) == []
    with pytest.raises(ValueError, match="has ended with a sentence already"):
        steering.end(0)


def test_a_branch_that_has_ended_goes_on_to_the_end_of_its_sentence(session: Session) -> None:
    session.stop = Stop(max_tokens=10, ignore_eog=True)
    session.generate()
    text = written(session)[0]
    assert not sentence_ends(text) or sentence_ends(text)[-1] < len(text)
    Steering.of(session).end(0)
    more = settled(session)[0]
    assert more.startswith(text) and sentence_ends(more)[-1] == len(more) > len(text)


def test_a_branch_more_does_not_end_as_another_was_wished_to(session: Session) -> None:
    steering = begun(session)
    steering.end(0)
    session.add_branches(1)
    session.engine.call(lambda: None)
    assert session.round.branches[2].stop_rule.boundary is None


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
        steering.end(0)
        texts = settled(session)
        assert branch.finish_reason is FinishReason.SENTENCE and texts[0].startswith(so_far)
        assert sentence_ends(texts[0])[-1] == len(texts[0])
        noted = over_there.tokenize(OPENING.replace("\n", f"\n{note}\n"), add_bos=True)
        assert over_there.resident(noted) >= len(noted) - 1, "it went on after the note"
    finally:
        session.close()
