"""What no branch shows is told, and can be opened; likely ways on become branches of the story."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.exploring import Exploring, Fork
from srbwriter.engine.types import Sampling, Stop
from srbwriter.session import Session
from srbwriter.session.exploring import probability_words
from srbwriter.session.sampling import Variety
from tests.engine.support import decoded_rows, evaluate_last_tokens

from .conftest import WAIT, open_session, write_round, written

STORY = "Once upon a time, there was a little fox who lived in the wood."


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    stop = Stop(max_tokens=12, ignore_eog=True)
    with open_session(
        file, STORY, bundled_model(), sampling=Sampling(seed=3), stop=stop, variety=Variety("distinct")
    ) as opened:
        yield opened


def fork(session: Session) -> Fork:
    """The fork of the round, when the engine has answered."""
    while (found := session.exploring.fork()) is None:
        request = session.exploring._pending
        request.generation.wait(WAIT)
    return found


def explored(session: Session) -> list[str]:
    """Let it explore to the end; the texts of the branches that it shows."""
    session.exploring.begin()
    for thread in threading.enumerate():
        if thread.name == "srbwriter-explore":
            thread.join(WAIT)
    assert session.exploring.problem is None
    return written(session)


def test_nobody_waits_for_an_engine_that_takes_long_to_say_what_tokens_write(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_round(session)
    engine, may_say = session.engine, threading.Event()
    pieces = engine.pieces

    def slow(ids: Sequence[int]) -> list[bytes]:
        assert may_say.is_set() or threading.current_thread() is not threading.main_thread()
        may_say.wait(WAIT)
        return pieces(ids)

    monkeypatch.setattr(engine, "pieces", slow)
    while (request := session.exploring._pending) is None or request.spelling is None:
        assert session.exploring.fork() is None
    may_say.set()
    assert fork(session).openings


def test_the_fork_says_what_the_branches_cover(session: Session) -> None:
    write_round(session)
    found = fork(session)
    count = len(found.after)
    assert {branch.ids[:count] for branch in session.round.branches} == {found.after}  # type: ignore[union-attr]
    begun = {branch.ids[count] for branch in session.round.branches}  # type: ignore[union-attr]
    assert len(begun) == 4
    shares = {o.token: o.probability for o in found.openings}
    assert found.covered == pytest.approx(sum(shares[token] for token in begun))
    assert 0 < found.covered < 1
    assert not begun.intersection(opening.token for opening in found.unexplored)
    probabilities = [opening.probability for opening in found.openings]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) <= 1.0 + 1e-6


@pytest.mark.parametrize("end", ["", " The", "\n"])
def test_the_fork_costs_a_row_for_each_token_that_is_no_choice(session: Session, end: str) -> None:
    session.set_text(STORY + end)
    write_round(session)
    engine = session.loader.engine
    evaluate_last_tokens(engine)  # type: ignore[arg-type]
    with decoded_rows(engine) as rows:  # type: ignore[arg-type]
        found = fork(session)
    assert sum(rows) <= len(found.after)


def test_a_fragment_is_completed_to_a_word_and_the_branch_begins_with_all_of_it(session: Session) -> None:
    write_round(session)
    openings = fork(session).unexplored[:20]
    words = session.exploring.complete(openings).result(WAIT)
    longer = [one for one in openings if one.token in words and words[one.token].rest]
    assert longer, "every likely first token is a whole word"
    for one in openings:
        if one.token in words:
            text = words[one.token].raw.decode()
            assert text.startswith(one.raw.decode()) and len(text.split()) == 1
    wanted = longer[0]
    index = session.exploring.open(wanted, words[wanted.token].rest)
    texts = written(session)
    assert texts[index].startswith(words[wanted.token].raw.decode())


def test_a_word_that_was_typed_in_part_is_completed_at_the_fork(session: Session) -> None:
    session.set_text(STORY + " He found a b")
    write_round(session)
    found = fork(session)
    assert session.round.generation.healed  # type: ignore[union-attr]
    assert found.after == () and found.openings[0].raw.isalpha()  # the rest of a word
    assert sum(opening.probability for opening in found.openings) == pytest.approx(1.0)


def test_likely_ways_become_branches_that_have_ended(session: Session) -> None:
    session.exploring.wanted = Exploring(cutoff=0.05, depth=10, beams=6, ends="never")
    texts = explored(session)
    current = session.round
    assert 2 <= len(texts) <= 6 and len(set(texts)) == len(texts)
    assert all(len(branch.ids) == 10 and not branch.live for branch in current.branches)
    shares = [current.probabilities[index] for index in range(len(texts))]
    assert shares == sorted(shares, reverse=True)
    kept = [session.story.text(child) for child in session.story.children(session.node)]
    assert sorted(kept) == sorted(STORY + text for text in texts)
    session.pick(1)
    assert session.text() == STORY + texts[1]


def test_exploring_costs_a_row_for_each_token_that_is_followed(session: Session) -> None:
    write_round(session)
    engine = session.loader.engine
    evaluate_last_tokens(engine)  # type: ignore[arg-type]
    session.exploring.wanted = Exploring(cutoff=0.05, depth=8, beams=6, ends="never")
    with decoded_rows(engine) as rows:  # type: ignore[arg-type]
        explored(session)
    assert sum(rows) <= 7 * 6  # what follows the eighth token nobody asks


def test_one_beginning_does_not_crowd_out_the_others(session: Session) -> None:
    session.exploring.wanted = Exploring(cutoff=0.03, depth=8, beams=4, ends="never")
    texts = explored(session)
    assert len({text.split()[0] for text in texts}) == 4


def test_ways_end_at_a_sentence(session: Session) -> None:
    session.exploring.wanted = Exploring(cutoff=0.2, depth=60, beams=3, ends="sentence")
    assert all(text.rstrip("\"' ").endswith((".", "!", "?")) for text in explored(session))


def test_a_way_can_be_written_on(session: Session) -> None:
    session.exploring.wanted = Exploring(cutoff=0.1, depth=4, beams=3, ends="never")
    before = explored(session)
    session.steer(0, "extend")
    after = written(session)
    assert after[0].startswith(before[0]) and len(after[0]) > len(before[0])


def test_an_exploration_that_is_stopped_shows_nothing(session: Session) -> None:
    session.generate()
    shown = session.round
    session.exploring.begin()
    session.stop_all()
    for thread in threading.enumerate():
        if thread.name == "srbwriter-explore":
            thread.join(WAIT)
    assert session.round is shown
    assert not session.exploring.working


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0914, "9 %"),
        (0.004, "0.4 %"),
        (1.0, "100 %"),
        (1e-4, "0.01 %"),
        (2e-5, "under 0.01 %"),
        (0.0, "under 0.01 %"),
    ],
)
def test_probabilities_are_told_in_percent(share: float, words: str) -> None:
    assert probability_words(share) == words
