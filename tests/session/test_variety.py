"""Branches that come out alike are written anew, if nobody has read or marked them; and panes have orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.types import Sampling, Stop
from srbwriter.session import Session, ordering
from srbwriter.session.likeness import ALIKE, likeness, runs
from srbwriter.session.sampling import Variety

from .conftest import open_session, write_round, written

STORY = "Once upon a time, there was a little fox who lived in the wood."


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    """All branches of a round are the same, as they have no chance."""
    stop = Stop(max_tokens=48, ignore_eog=True)
    with open_session(file, STORY, n=3, sampling=Sampling(temperature=0.0), stop=stop) as opened:
        yield opened


def twins(session: Session) -> list[str]:
    """A round whose branches are the same; those that are rolled anew take chances."""
    session.generate()
    found = written(session)
    assert len(set(found)) == 1 and len(found[0]) > 80
    for branch in session.round.branches:  # type: ignore[union-attr]
        branch.change(Sampling(temperature=1.2))
    session.loader.engine.flush()  # type: ignore[union-attr]
    return found


def test_a_branch_that_is_like_another_is_written_anew(session: Session) -> None:
    before = twins(session)
    assert session.renewing.renew_alike() == [1, 2]
    after = written(session)
    assert after[0] == before[0]
    assert len(set(after)) == 3
    assert session.renewing.renew_alike() == []
    assert not session.round.duplicates.alike  # type: ignore[union-attr]
    kept = [session.story.text(child) for child in session.story.children(session.story.current)]
    assert before[0] in {text.removeprefix(STORY) for text in kept}  # nothing is lost


@pytest.mark.parametrize(
    ("mark", "spared"),
    [
        (lambda session: session.story.mark(session.round.node_of(1), bookmark=True), {1}),
        (lambda session: session.steer(1, "stop"), set()),
    ],
)
def test_what_is_marked_stays(session: Session, mark: Callable[[Session], object], spared: set[int]) -> None:
    twins(session)
    mark(session)
    renewed = session.renewing.renew_alike()
    assert spared.isdisjoint(renewed)
    assert 2 in renewed


def test_what_is_read_or_steered_stays(session: Session) -> None:
    twins(session)
    session.steer(2, "change", sampling=Sampling(temperature=1.0))
    assert session.renewing.renew_alike({1}) == [0]  # the first goes instead of either


def test_each_is_written_anew_twice_at_most(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    write_round(session)
    for times in (1, 2):
        assert session.renewing.renew_alike() == [1, 2]  # without chance they come out the same again
        written(session)
        assert session.round.duplicates.renewed[1] == times  # type: ignore[union-attr]
    assert session.renewing.renew_alike({0}) == []


def test_it_can_be_left_alone(session: Session) -> None:
    session.variety = replace(session.variety, renew=False)
    twins(session)
    assert session.renewing.renew_alike() == []
    assert session.round.duplicates.alike == {1: 0, 2: 0}  # type: ignore[union-attr]


def test_a_round_is_drawn_as_the_writer_wants(session: Session) -> None:
    session.variety = Variety("distinct")
    session.sampling = Sampling(temperature=1.2, seed=3)
    write_round(session)
    request = session.round.generation.request  # type: ignore[union-attr]
    assert request.siblings == "distinct"
    session.sampling = Sampling(mirostat=2)  # steers by its own choices
    session.generate()
    request = session.round.generation.request  # type: ignore[union-attr]
    assert request.siblings == "independent"


def test_what_an_engine_lacks_is_not_asked_for() -> None:
    wanted, none = Variety("distinct"), Capabilities({"siblings": "no logits"})
    assert wanted.request_fields((Sampling(),), Capabilities()) == {"siblings": "distinct"}
    assert wanted.request_fields((Sampling(),), none) == {}


# ---- likeness


TEXT = st.text(alphabet="abc 猫が。", min_size=20, max_size=200)


def test_likeness_tells_copies_from_other_texts() -> None:
    fox = (
        "The fox went down to the river and drank, and it was cold, so it went home and slept until morning."
    )
    copied = (
        "The fox went down to the river and drank, and it was cold, so it went away and slept until night."
    )
    other = "Nobody had seen the old mill since the flood; its wheel hung over the stream like a broken hand."
    assert likeness(runs(fox), runs(copied)) > ALIKE
    assert likeness(runs(fox), runs(other)) < 0.2


def test_orders_name_each_branch_once(session: Session) -> None:
    session.sampling = Sampling(temperature=1.2)
    session.generate(6)
    texts = written(session)
    for name, (_, order) in ordering.ORDERS.items():
        assert sorted(order(session.round)) == list(range(6)), name  # type: ignore[arg-type]
    assert ordering.ordered(session.round, "by likelihood", lambda branch: [None]) is None  # type: ignore[arg-type]
    likeliest = ordering.ordered(
        session.round, "by likelihood", lambda branch: [-1.0, -float(branch.index % 3)]  # type: ignore[arg-type]
    )  # fmt: skip
    assert likeliest == [0, 3, 1, 4, 2, 5]
    longest = ordering.ORDERS["by length"][1](session.round)  # type: ignore[arg-type]
    assert [len(texts[i]) for i in longest] == sorted(map(len, texts), reverse=True)
