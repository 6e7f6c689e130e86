"""A story between two engines: one elsewhere and one here, with one vocabulary or with two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.remote.options import RemoteLoader, RemoteOptions
from srbwriter.engine.types import RemoteError, Stop
from srbwriter.session import Session
from srbwriter.session.ahead import Budget
from srbwriter.session.wishes import ask_wish
from srbwriter.story import Story
from tests.engine.peers import served
from tests.engine.scripted import PROMPT, STORY, Scripted, answers
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import OPTIONS, WAIT, ready, write_round
from .test_session import until

STOP = Stop(max_tokens=24, ignore_eog=True)


@pytest.fixture(scope="module")
def over_there() -> Iterator[Engine]:
    with load_engine(short_model(), OPTIONS) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def url(over_there: Engine) -> Iterator[str]:
    with served(over_there) as address:
        yield address


def elsewhere(file: Path, url: str, **options: object) -> Session:
    story = Story.open(file) if file.exists() else Story.create(file)
    session = Session(story, RemoteLoader(RemoteOptions(url, **options)), n=4, stop=STOP)  # type: ignore[arg-type]
    ready(session)
    return session


def here(file: Path) -> Session:
    loader = EngineLoader(short_model(), OPTIONS, load_engine)
    session = Session(Story.open(file), loader, n=4, stop=STOP, options=OPTIONS)
    ready(session)
    return session


def a_round(session: Session) -> str:
    """Write branches and pick the second; its text."""
    current = write_round(session)
    session.keep()
    text = current.branches[1].text
    session.pick(1)
    return text


def prompt_of(session: Session) -> str:
    return session.engine.detokenize(session.round.generation.prompt_ids, special=True)


def test_what_was_written_elsewhere_is_read_anew_here(file: Path, url: str) -> None:
    session = elsewhere(file, url)
    session.set_text("Once upon a time")
    first = a_round(session)
    session.close()
    session = here(file)
    second = a_round(session)
    read = prompt_of(session) + session.round.generation.healed
    assert read.removeprefix("<|endoftext|>") == "Once upon a time" + first
    assert session.text() == "Once upon a time" + first + second
    session.close()


def test_branches_of_an_earlier_sitting_go_on_elsewhere(file: Path, url: str) -> None:
    session = elsewhere(file, url)
    session.set_text("Once upon a time")
    current = session.generate()
    begun = [branch.text for branch in current.generation.wait(WAIT).branches]
    session.close()
    session = elsewhere(file, url)
    session.steer(0, "extend", stop=8)
    session.round.generation.wait(WAIT)
    texts = [branch.text for branch in session.round.branches]
    assert texts[0].startswith(begun[0]) and len(texts[0]) > len(begun[0]) and texts[1:] == begun[1:]
    session.close()


def test_a_round_that_failed_is_rolled_again_when_the_server_is_back(file: Path) -> None:
    with closing(Scripted("vllm")) as server:
        session = elsewhere(file, server.url, first_wait=0.0, longest_wait=0.0)
        session.set_text(PROMPT)
        server.always = answers(500, {"error": {"message": "worn out"}})
        with pytest.raises(RemoteError, match="worn out"):
            write_round(session)
        current = session.round
        assert all("worn out" in str(branch.error) for branch in current.branches)
        server.always = None
        for index in range(4):
            session.steer(index, "reroll")
        current.generation.wait(WAIT)
        assert [branch.text for branch in current.branches] == [STORY[:24]] * 4
        session.close()


@pytest.mark.parametrize("dialect", ["auto", "openai"])
def test_a_wish_reaches_an_engine_elsewhere(file: Path, url: str, dialect: str) -> None:
    with closing(elsewhere(file, url, dialect=dialect)) as session:
        session.set_text(STORY)
        ask_wish(session, "more rain")
        current = session.round
        current.generation.wait(WAIT)
        assert "more rain" in session.engine.detokenize(current.generation.prompt_ids)
        ask_wish(session, "slower", 2)
        until(session, lambda: current.over)
        assert all(branch.text for branch in current.branches) and current.wish_of(2) == "slower"


def test_nothing_is_written_ahead_elsewhere(file: Path, url: str) -> None:
    with closing(elsewhere(file, url)) as session:
        session.look_ahead.budget = Budget("all", 4096)
        assert "before what others ask for" in session.look_ahead.why_not
