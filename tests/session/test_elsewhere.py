"""A story between two engines: one elsewhere and one here, with one vocabulary or with two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.remote.loader import RemoteLoader
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import Stop
from srbwriter.session import Session
from srbwriter.session.ahead import Budget
from srbwriter.session.framing import REQUEST
from srbwriter.session.sampling import Variety
from srbwriter.story import Story
from tests.engine.instruct_model import make_instruct
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


def prompt_ids(session: Session) -> tuple[int, ...]:
    return session.round.generation.prompt_ids


def test_what_was_written_elsewhere_keeps_its_tokens_here(file: Path, url: str) -> None:
    session = elsewhere(file, url)
    session.set_text("Once upon a time")
    first = a_round(session)
    ids = session.round.branches[1].ids if session.round is not None else ()
    session.close()
    session = here(file)
    second = a_round(session)
    assert prompt_ids(session)[-len(ids) :] == ids  # nothing of it was tokenised anew
    session.close()
    session = elsewhere(file, url)
    third = a_round(session)
    assert session.text() == "Once upon a time" + first + second + third
    session.close()


@pytest.fixture(scope="module")
def instruct_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = make_instruct(tmp_path_factory.mktemp("instruct") / "toy.gguf")
    with load_engine(model, OPTIONS) as engine, served(engine) as address:
        yield address


def test_a_story_is_framed_by_the_template_that_a_server_tells(file: Path, instruct_url: str) -> None:
    with closing(elsewhere(file, instruct_url)) as session:
        session.set_text("Once upon a time")
        a_round(session)
        assert session.instruct
        prompt = session.engine.detokenize(prompt_ids(session), special=True)
        assert f"user\n{REQUEST}<|im_end|>\n<|im_start|>assistant\nOnce upon a" in prompt


def test_a_server_that_tells_no_template_frames_nothing(file: Path, instruct_url: str) -> None:
    with closing(elsewhere(file, instruct_url, dialect="openai")) as session:
        session.set_text("Once upon a time")
        context = session.context()
        assert not context.framed
        assert "does not report its chat template" in context.frame


def test_another_vocabulary_reads_the_text_anew(file: Path, url: str) -> None:
    session = elsewhere(file, url, dialect="openai")
    session.set_text("Once upon a time")
    first = a_round(session)
    session.close()
    session = here(file)
    second = a_round(session)
    read = session.engine.detokenize(prompt_ids(session)) + session.round.generation.healed
    assert read == "Once upon a time" + first
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
        current = write_round(session)
        assert all("worn out" in str(branch.error) for branch in current.branches)
        server.always = None
        session.reroll_all()
        current.generation.wait(WAIT)
        assert [branch.text for branch in current.branches] == [
            STORY[:23]
        ] * 4  # and the prompt's last letter
        session.close()


def test_what_follows_a_pick_is_written_ahead_elsewhere(file: Path, url: str) -> None:
    session = elsewhere(file, url)
    session.set_text(PROMPT)
    write_round(session)
    session.variety = replace(session.variety, renew=False)
    session.look_ahead.budget = Budget("focused", 4096)
    until(session, lambda: session.look_ahead.share(0) == 1.0)
    session.pick(0)
    again = session.generate()
    assert again.generation.done
    assert all(len(branch.ids) == 24 for branch in again.branches)
    session.close()


def test_what_is_asked_ahead_elsewhere_is_promoted_there(file: Path, over_there: Engine, url: str) -> None:
    queue = over_there._scheduler.queue
    usual, queue.prefetch_delay = queue.prefetch_delay, 3600.0
    session = elsewhere(file, url)
    session.set_text(PROMPT)
    write_round(session)
    session.look_ahead.budget = Budget("focused", 4096)
    until(session, lambda: bool(session.look_ahead._rounds))
    session.pick(0)
    again = session.generate()
    again.generation.wait(WAIT)  # over there it would wait for an hour
    assert all(len(branch.ids) == 24 for branch in again.branches)
    queue.prefetch_delay = usual
    session.close()


@pytest.mark.parametrize("dialect", ["auto", "openai"])
def test_a_wish_reaches_an_engine_elsewhere(file: Path, url: str, dialect: str) -> None:
    with closing(elsewhere(file, url, dialect=dialect)) as session:
        session.set_text(STORY)
        session.wishes.ask("more rain")
        current = session.round
        current.generation.wait(WAIT)
        session.wishes.ask("slower", 2)
        until(session, lambda: current.over)
        assert all(branch.text for branch in current.branches) and current.wish_of(2) == "slower"
        prompts = [session.engine.detokenize(branch.generation.prompt_ids) for branch in current.branches]
        assert ["more rain" in prompt for prompt in prompts] == [True, True, False, True]
        assert "slower" in prompts[2]


def test_who_cannot_stand_back_writes_nothing_ahead(file: Path) -> None:
    with closing(Scripted("vllm")) as server:
        session = elsewhere(file, server.url)
        session.look_ahead.budget = Budget("all", 4096)
        assert "while nobody else asks" in session.look_ahead.why_not
        session.close()


def test_what_no_branch_shows_is_known_of_an_engine_elsewhere(file: Path, url: str) -> None:
    with closing(elsewhere(file, url)) as session:
        session.set_text(STORY)
        session.variety = Variety("distinct")
        current = write_round(session)
        found = session.openings.find().result(WAIT)
        assert 0 < found.covered < 1
        index = session.openings.open(found.words[0])
        until(session, lambda: len(current.branches) > index and not current.branches[index].live)
        wanted = found.words[0].ids
        assert current.branches[index].ids[: len(wanted)] == wanted
