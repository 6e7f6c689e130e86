"""A run that picks and writes on by itself: what it picks, and what ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.types import NoModel, Sampling, Stop
from srbwriter.session import Session
from srbwriter.session.autorun import Autorun, Run

from .conftest import WAIT, open_session

OPENING = "Once upon a time there was a fox who lived in a wood."


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with open_session(
        file, OPENING, bundled_model(), n=3, stop=Stop(max_tokens=8, ignore_eog=True)
    ) as opened:
        yield opened


def pick(session: Session, index: int, go_on: bool) -> None:
    session.pick(index, go_on=go_on)


def step(session: Session) -> bool:
    return Autorun.of(session).step(lambda index, go_on: pick(session, index, go_on))


def follow(session: Session, run: Run, rounds: int = 1000) -> None:
    """Let the run work until it has ended, or picked so often."""
    until = time.monotonic() + WAIT
    while run.active and run.done < rounds:
        if not step(session) and session.round is not None and not run.problem:
            session.round.generation.wait(WAIT)  # type: ignore[union-attr]
        assert time.monotonic() < until


def likeliest(session: Session) -> int:
    """Which branch of the round in view has the likeliest words, read from the branches."""
    branches = session.round.branches  # type: ignore[union-attr]
    return max(branches, key=lambda b: sum(one.logprob for one in b.logprobs) / len(b.logprobs)).index


def test_each_round_the_likeliest_branch_is_picked(session: Session) -> None:
    run, picked = Autorun.of(session).begin(3), list[tuple[int, int]]()

    def pick_and_note(index: int, go_on: bool) -> None:
        picked.append((index, likeliest(session)))
        pick(session, index, go_on)

    until = time.monotonic() + WAIT
    while run.active and time.monotonic() < until:
        assert session.autorun.progress == f"round {run.done + 1} of 3"
        session.autorun.step(pick_and_note)
    assert (run.done, run.problem, session.autorun.progress) == (3, None, "")
    assert [index for index, _ in picked] == [wanted for _, wanted in picked]
    session.round.generation.wait(WAIT)  # type: ignore[union-attr]  # the writer goes on from here
    path = session.story.nodes(session.story.path(session.node))
    assert [node.author for node in path[-3:]] == ["model"] * 3 and session.text().startswith(OPENING)


STOPS = {
    "a key": lambda session: session.set_text(f"{session.text()} And then"),
    "a pick": lambda session: session.pick(0),
    "undo": lambda session: session.undo(),
    "new branches": lambda session: session.generate(),
    "escape": lambda session: session.long_work.stop(),
    "leaving": lambda session: session.prepare_close(),
}


@pytest.mark.parametrize("way", STOPS)
def test_what_the_writer_does_ends_it(session: Session, way: str) -> None:
    session.stop = Stop(max_tokens=24, ignore_eog=True)
    run = session.autorun.begin(50)
    follow(session, run, 2)
    write_until_text(session)
    STOPS[way](session)
    assert not run.active and run.problem is None and session.autorun.progress == ""
    assert not step(session) and run.done == 2
    assert session.autorun.outcome(run) == "Stopped after 2 rounds."
    session.keep()
    assert ("And then" in session.text()) == (way == "a key")


def write_until_text(session: Session) -> None:
    generation = session.round.generation  # type: ignore[union-attr]
    events = generation.events(timeout=WAIT)
    while len(generation.branches) < 2 or not generation.branches[1].text.strip():
        next(events)


def test_an_error_of_the_model_ends_it_and_the_pick_stays(session: Session) -> None:
    run = session.autorun.begin(9)
    follow(session, run, 1)
    session.round.generation.wait(WAIT)  # type: ignore[union-attr]
    session.engine.close()
    follow(session, run)
    assert (run.done, run.active) == (2, False) and run.problem is not None
    assert session.autorun.outcome(run) == f"Stopped after 2 rounds: {run.problem}"
    assert session.story.node(session.node).author == "model"


def test_the_end_of_the_text_ends_it(session: Session) -> None:
    [end, *_] = session.engine.eog
    session.sampling = Sampling(logit_bias=((end, 100.0),))
    session.stop = Stop(max_tokens=8)
    run = session.autorun.begin(9)
    follow(session, run)
    assert run.done == 0 and "takes the text for finished" in session.autorun.outcome(run)


def test_it_does_not_begin_without_a_model_or_with_no_rounds(file: Path) -> None:
    with open_session(file, OPENING) as session:
        with pytest.raises(ValueError, match="from 1 to 999"):
            session.autorun.begin(0)
        session.loader.close()
        with pytest.raises(NoModel):
            session.autorun.begin(1)
        assert not session.autorun.active
