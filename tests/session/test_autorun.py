"""A run that picks and writes on by itself: what it picks, what ends it, and what undo takes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.types import ONLY_READ, NoModel, Request, Sampling, Stop
from srbwriter.session import Session
from srbwriter.session.autorun import CHOICES, Autorun, Run
from srbwriter.story import Refused

from .conftest import WAIT, open_session, write_round

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


def settle(session: Session) -> None:
    """Let the engine carry out all verbs that were called."""
    session.engine.submit(Request("It rained.", stop=ONLY_READ)).wait(WAIT)  # type: ignore[union-attr]


def best(session: Session, order: str) -> int:
    """Which branch of the round in view is picked by an order, read from the branches."""
    branches = session.round.branches  # type: ignore[union-attr]
    match order:
        case "longest":
            return max(branches, key=lambda branch: len(branch.text)).index
        case "shortest":
            return min(branches, key=lambda branch: len(branch.text)).index
        case "likeliest":
            return max(branches, key=lambda b: sum(one.logprob for one in b.logprobs) / len(b.logprobs)).index
        case _:
            return -1


@pytest.mark.parametrize("order", CHOICES)
def test_each_round_the_branch_of_the_order_is_picked(session: Session, order: str) -> None:
    run, picked = Autorun.of(session).begin(order, 3), list[tuple[int, int]]()

    def pick_and_note(index: int, go_on: bool) -> None:
        picked.append((index, best(session, order)))
        pick(session, index, go_on)

    until = time.monotonic() + WAIT
    while run.active and time.monotonic() < until:
        assert session.autorun.progress == f"round {run.done + 1} of 3"
        session.autorun.step(pick_and_note)
    assert (run.done, run.problem, session.autorun.progress) == (3, None, "")
    assert [index for index, _ in picked] == [wanted if wanted >= 0 else index for index, wanted in picked]
    session.round.generation.wait(WAIT)  # type: ignore[union-attr]  # the writer goes on from here
    path = session.story.nodes(session.story.path(session.node))
    assert [node.author for node in path[-3:]] == ["model"] * 3 and session.text().startswith(OPENING)


STOPS = {
    "a key": lambda session: session.typing.text(f"{session.text()} And then"),
    "a pick": lambda session: session.pick(0),
    "undo": lambda session: session.undo(),
    "new branches": lambda session: session.generate(),
    "escape": lambda session: session.long_work.stop(),
    "leaving": lambda session: session.prepare_close(),
}


@pytest.mark.parametrize("way", STOPS)
def test_what_the_writer_does_ends_it(session: Session, way: str) -> None:
    session.stop = Stop(max_tokens=24, ignore_eog=True)
    run = session.autorun.begin("longest", 50)
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
    run = session.autorun.begin("longest", 9)
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
    run = session.autorun.begin("first to end", 9)
    follow(session, run)
    assert run.done == 0 and "takes the text for finished" in session.autorun.outcome(run)


def test_the_first_to_end_is_picked_while_others_are_written(session: Session) -> None:
    session.stop = Stop(max_tokens=400, ignore_eog=True)
    current = session.generate()
    for index in (0, 2):
        session.steer(index, "pause")
    for order, done in (("longest", 0), ("first to end", 1)):
        run = session.autorun.begin(order, 1, goes_on=False)
        assert session.round is current
        write_until_text(session)
        session.steer(1, "stop")
        settle(session)
        assert [branch.live for branch in current.branches] == [True, False, True]
        assert step(session) == bool(done) and run.done == done
    assert session.text() == OPENING + current.branches[1].text


def test_undo_takes_back_a_round_and_one_command_the_run(session: Session) -> None:
    session.set_text(f"{OPENING} He sang.")
    current = write_round(session)
    run = session.autorun.begin("longest", 3)
    follow(session, run)
    texts = [session.text()]
    for _ in range(2):
        assert session.undo().startswith("pick")
        texts.append(session.text())
    session.redo()
    assert session.text() == texts[1]
    assert session.autorun.undo() == 2
    assert session.text() == f"{OPENING} He sang." and session.round is current
    with pytest.raises(Refused, match="left to undo"):
        session.autorun.undo()
    assert session.redo() == "pick branch 1" or session.text() != f"{OPENING} He sang."


def test_it_does_not_begin_without_a_model_or_with_no_rounds(file: Path) -> None:
    with open_session(file, OPENING) as session:
        with pytest.raises(ValueError, match="from 1 to 999"):
            session.autorun.begin("longest", 0)
        session.loader.close()
        with pytest.raises(NoModel):
            session.autorun.begin("longest", 1)
        assert not session.autorun.active
