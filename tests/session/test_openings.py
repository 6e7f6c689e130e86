"""First words that no branch shows are found, and can be opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.types import NoModel, Sampling, Stop
from srbwriter.session import Session
from srbwriter.session.openings import MOST, Words, find_words, open_word, probability_words
from srbwriter.session.sampling import Variety

from .conftest import WAIT, open_session, write_round, written

STORY = "Once upon a time, there was a little fox who lived in the wood."


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    stop = Stop(max_tokens=12, ignore_eog=True)
    with open_session(
        file, STORY, bundled_model(), sampling=Sampling(seed=3), stop=stop, variety=Variety("distinct")
    ) as opened:
        yield opened


def found(session: Session) -> Words:
    return find_words(session).result(WAIT)


@pytest.mark.parametrize("end", ["", " The", "\n"])
def test_the_words_say_what_the_branches_cover(session: Session, end: str) -> None:
    session.set_text(STORY + end)
    current = write_round(session)
    words = found(session)
    missing = [word for word in words.words if not word.branches]
    shown = words.words[len(missing) :]
    assert 0 < len(missing) <= MOST and all(word.branches for word in shown)
    assert words.covered == pytest.approx(sum(word.probability for word in shown))
    assert 0 < words.covered < 1
    shares = [word.probability for word in missing]
    assert shares == sorted(shares, reverse=True)
    for word in missing:
        assert not any(branch.ids[: len(word.ids)] == word.ids for branch in current.branches)


def test_a_branch_begins_with_all_of_a_word(session: Session) -> None:
    write_round(session)
    missing = [word for word in found(session).words if not word.branches]
    assert all(len(word.raw.decode().split()) <= 1 for word in missing)
    wanted = max(missing, key=lambda word: len(word.ids))
    index = open_word(session, wanted)
    assert written(session)[index].startswith(wanted.raw.decode())
    assert index in session.round.forced  # type: ignore[union-attr]


def test_a_word_that_was_typed_in_part_is_completed(session: Session) -> None:
    session.set_text(STORY + " He found a b")
    write_round(session)
    words = found(session).words
    assert session.round.generation.healed  # type: ignore[union-attr]
    assert words[0].raw.decode().isalpha()  # the rest of a word


def test_without_branches_there_are_no_words(session: Session) -> None:
    with pytest.raises(NoModel):
        find_words(session)


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
