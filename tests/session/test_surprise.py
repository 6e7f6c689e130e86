"""Surprise of a story's sentences: whose bits they are, what is evaluated for them, and what stays known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.types import NotSupported, Priority
from srbwriter.session import Session
from srbwriter.session.scoring import scoring_request
from srbwriter.session.surprise import (
    LEAST_TOKENS,
    Reading,
    ScoredSentence,
    Surprise,
    flattest,
    most_unexpected,
    plan_windows,
)

from .conftest import WAIT, open_session, write_round

NAMES = ("Tom", "Lily", "the old fox", "a small grey bird", "nobody", "the baker's wife")
DEEDS = ("found a red ball", "sang the whole day", "ate all the bread")
SENTENCES = [
    f"{who.capitalize()} {did} near the river, and {other} saw it from the hill."
    for other in NAMES for who in NAMES for did in DEEDS
]  # fmt: skip
TEXT = " ".join(SENTENCES[:12]) + "\n\n" + " ".join(SENTENCES[12:20])
LONG = " ".join(SENTENCES * 2)  # does not fit the window


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with open_session(file, TEXT, n=2) as opened:
        yield opened


def read(session: Session) -> Reading:
    reading = Surprise.of(session).read()
    Surprise.of(session).later(lambda: None).result(WAIT)  # its thread does one thing after the other
    assert reading.done and reading.error is None
    return reading


def rows(session: Session) -> int:
    """Rows that the engine has evaluated by now."""
    session.engine.flush()
    stats = session.engine.stats()
    return stats.prompt_rows + stats.branch_rows


def test_each_sentence_has_the_mean_of_its_tokens(session: Session) -> None:
    found = read(session).passages
    assert [TEXT[one.start : one.end] for one in found] == SENTENCES[:20]
    assert all(one.authors == {"writer"} for one in found)
    engine, last = session.engine, found[-1]
    before = tuple(engine.tokenize_continuation(TEXT[: last.start].rstrip()))
    ids = (*before, *engine.tokenize_continuation(" " + TEXT[last.start :]))
    scored = engine.submit(scoring_request(ids, len(before), Priority.NORMAL)).wait(WAIT).prompt_logprobs
    bits = -fmean(one.logprob for one in scored) / math.log(2)
    assert last.bits == pytest.approx(bits, rel=0.05)


def test_a_story_is_scored_once_and_an_edit_costs_what_is_near_it(session: Session) -> None:
    first = read(session).passages
    before = rows(session)
    assert read(session).passages == first and rows(session) == before
    session.set_text(TEXT.replace(SENTENCES[1], "Then all at once the moon fell into the green, green sea."))
    changed = read(session).passages
    spent = rows(session) - before
    assert 0 < spent < len(session.engine.tokenize(TEXT)) * 0.8
    assert changed[0] == first[0] and changed[1].bits > first[1].bits
    assert [one.bits for one in changed[-2:]] == [one.bits for one in first[-2:]], "too far away to change"


def test_a_branch_that_was_picked_belongs_to_the_model(session: Session) -> None:
    write_round(session)
    session.pick(0)
    session.set_text(session.text() + " And that was all that they ever told to anyone about it.")
    found = read(session).passages
    assert found[-1].authors >= {"writer"} and any("model" in one.authors for one in found)


def test_a_story_that_does_not_fit_is_scored_part_by_part(file: Path) -> None:
    with open_session(file, LONG) as session:
        assert len(session.engine.tokenize(LONG)) > session.engine.n_ctx
        assert [LONG[one.start : one.end] for one in read(session).passages] == SENTENCES * 2
        assert Surprise.of(session).progress == ""


def test_what_was_stopped_goes_on_from_there(file: Path) -> None:
    with open_session(file, LONG) as session:
        scores, total = Surprise.of(session), len(session.engine.tokenize(LONG))
        reading = scores.read()
        while reading.lookup is None or not reading.lookup.prompt_logprobs:
            assert not reading.done
        assert scores.progress.startswith("scoring the story: ") and session.long_work is scores
        scores.stop()
        assert scores.progress == "" and reading.stopped
        scores.later(lambda: None).result(WAIT)
        known, before = len(reading.passages), rows(session)
        assert known < len(SENTENCES) * 2
        assert len(read(session).passages) == len(SENTENCES) * 2
        assert rows(session) - before <= total * 1.5


def test_an_engine_that_reports_none_says_so(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        type(session.engine), "capabilities", Capabilities({"prompt_logprobs": "it reports none"})
    )
    with pytest.raises(NotSupported, match="it reports none"):
        Surprise.of(session).read()


def test_words_typed_since_the_last_round_are_scored_while_they_are_read(session: Session) -> None:
    tokens = session.tokens
    tokens.gather = True
    write_round(session)
    assert session.round.generation.request.prompt_logprobs is None, "the story has no scores yet"
    read(session)
    session.set_text(TEXT + " The bells rang twice, and the ferry left without them.")
    current = write_round(session)
    ids, first = current.generation.prompt_ids, current.generation.request.score_from
    assert 0 < len(ids) - first < 20
    tokens.collect()
    assert set(range(1, len(ids))) <= set(session.scored.of(ids))
    before = rows(session)
    assert read(session).passages[-1].bits > 0
    assert rows(session) - before == 1 + current.generation.healed_tokens, "these were left to the branches"


def passages(bits: list[float]) -> list[ScoredSentence]:
    return [ScoredSentence(at, at + 1, value) for at, value in enumerate(bits)]


@given(st.lists(st.floats(0, 20), max_size=20), st.integers(1, 8))
def test_no_passage_is_both_flat_and_unexpected(bits: list[float], most: int) -> None:
    flat, odd = flattest(passages(bits), most), most_unexpected(passages(bits), most)
    assert len(flat) <= most and len(odd) <= most and len({*flat, *odd}) == len(flat) + len(odd)
    assert all(one.bits <= other.bits for one in flat for other in odd)


@given(
    st.lists(st.tuples(st.integers(LEAST_TOKENS, 90), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 40),
)
def test_windows_have_room_and_context(sentences: list[tuple[int, bool]], head: int) -> None:
    room, at, missing = 256, head, list[tuple[int, int]]()
    for length, known in sentences:
        if not known:
            missing.append((at, at + length))
        at += length
    windows = list(plan_windows(missing, head, room))
    scored = [at for window in windows for at in range(window.first, window.end)]
    assert len(scored) == len(set(scored)) and {at for run in missing for at in range(*run)} <= set(scored)
    for window in windows:
        assert head + window.end - window.begin <= room
        assert window.begin == head or window.first - window.begin >= (room - head) // 4 - 1
