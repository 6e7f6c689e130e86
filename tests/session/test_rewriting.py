"""Variants of a passage: which passage, what is asked, how they are ranked, and what a pick does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.remote.options import DialectName, RemoteLoader, RemoteOptions
from srbwriter.engine.types import Sampling
from srbwriter.session import Session
from srbwriter.session import rewriting as rewriting_module
from srbwriter.session.rewriting import (
    FIT_TOKENS,
    MOST_CHARS,
    PRESENT,
    Passage,
    Rewrites,
    Rewriting,
    passage_at,
)
from srbwriter.story import Refused, Story
from tests.engine.peers import served
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import OPTIONS, WAIT, open_session, ready, write_round

BEFORE = "Once upon a time, a little fox lived in the wood."
PASSAGE = " One day he went to the river to look for his friend, the old frog."
AFTER = " The frog was happy to see the fox, and they played in the water all day long.\n\nThe end."
TEXT = BEFORE + PASSAGE + AFTER

# ---- which passage


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (60, 60, PASSAGE),
        (len(BEFORE), len(BEFORE), BEFORE),  # behind its full stop
        (len(TEXT), len(TEXT), "The end."),
        (20, 28, " little f"),  # space at its ends is left out, the space before it is not
        (0, 4, "Once"),
    ],
)
def test_the_passage(start: int, end: int, found: str) -> None:
    passage = passage_at(TEXT, start, end)
    assert passage.text == found and TEXT[passage.start : passage.end] == found
    assert passage.find(TEXT) == passage.start


@pytest.mark.parametrize("text", ["It rained. The cat came by. ", "It rained. The cat came by.  \nAnd went."])
def test_after_the_space_behind_a_sentence_it_is_that_sentence(text: str) -> None:
    at = text.index("by. ") + 4
    assert passage_at(text, at, at).text == " The cat came by."


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [("", 0, 0), ("A.\n\nB.", 3, 3), ("a  b", 1, 3), ("a" * 5000, 0, MOST_CHARS + 1)],
)
def test_what_is_none(text: str, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="Select"):
        passage_at(text, start, end)


def test_it_is_found_again_only_where_it_is_certain() -> None:
    passage = passage_at(TEXT, 60, 60)
    assert passage.find("More. " + TEXT) == passage.start + 6
    assert passage.find(TEXT.replace("river", "lake")) is None
    assert passage.find("More. " + TEXT + PASSAGE) is None  # which one is meant?


# ---- variants


def variants(session: Session, passage: Passage | None = None) -> Rewrites:
    """Variants that have ended and are ranked as far as they can be."""
    rewriting = Rewriting.of(session)
    rewriting.write(passage or passage_at(TEXT, 60, 60))
    while (found := rewriting.variants) is None or not found.done:  # each step on the instrument's thread
        if rewriting.problem is not None:
            raise rewriting.problem
        rewriting.later(lambda: None).result(WAIT)
        under_way = [found.generation, *found.scoring.values()] if found is not None else rewriting._checks
        for generation in under_way:
            generation.wait(WAIT)
    return found


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with open_session(file, TEXT, bundled_model(), n=3, sampling=Sampling(seed=3)) as opened:
        yield opened


def test_a_gap_is_filled_by_a_model_that_can(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting_module, "fills_gap", lambda checks: True)
    found, engine = variants(session), session.engine
    assert engine is not None and engine.fim is not None
    prefix, suffix, middle = engine.fim
    ids = list(found.generation.prompt_ids)
    assert ids[-1] == middle and engine.detokenize(ids[ids.index(suffix) + 1 : -1]) == AFTER
    assert engine.detokenize(ids[ids.index(prefix) + 1 : ids.index(suffix)]) == BEFORE
    length = len(engine.tokenize(PASSAGE))
    for branch in found.generation.branches:
        assert length // 2 <= len(branch.ids) <= 2 * length + 8


def test_the_fit_is_the_likelihood_of_the_text_after_it(session: Session) -> None:
    found, engine = variants(session), session.engine
    assert engine is not None and set(found.fits) == {PRESENT, 0, 1, 2}
    assert found.best == max((0, 1, 2), key=found.fits.__getitem__)
    following = engine.tokenize_continuation(AFTER)[:FIT_TOKENS]
    scored = found.scoring[0]
    assert list(scored.prompt_ids[-len(following) :]) == following
    told = engine.submit(scored.request).wait(WAIT).prompt_logprobs
    assert [one.id for one in told] == following
    assert found.fits[0] == pytest.approx(np.mean([one.logprob for one in told]), abs=1e-2)
    text = engine.detokenize(scored.prompt_ids, special=False)
    assert text == BEFORE + found.generation.branches[0].text.rstrip() + AFTER


def test_other_models_continue_the_text_before(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.engine, "fim", None)
    found, engine = variants(session), session.engine
    assert engine is not None and set(found.fits) == {PRESENT, 0, 1, 2}
    healed = found.generation.healed
    assert engine.detokenize(found.generation.prompt_ids) + healed == BEFORE
    for index, scored in found.scoring.items():
        text = PASSAGE if index == PRESENT else found.generation.branches[index].text.rstrip()
        assert engine.detokenize(scored.prompt_ids) == BEFORE + text + AFTER


@pytest.mark.parametrize("dialect", ["srb", "openai"])
def test_an_engine_elsewhere_writes_them_too(file: Path, dialect: DialectName) -> None:
    story = Story.create(file)
    story.append(TEXT)
    with (
        load_engine(short_model(), OPTIONS) as engine,
        served(engine) as url,
        closing(Session(story, RemoteLoader(RemoteOptions(url, dialect=dialect)), n=2)) as session,
    ):
        ready(session)
        found = variants(session)
        assert all(branch.text for branch in found.generation.branches)
        assert not found.fits and "no token ids" in found.unranked
        Rewriting.of(session).apply(1)
        assert session.text().startswith(BEFORE) and session.text().endswith(AFTER)


def test_without_text_after_it_they_are_not_ranked(session: Session) -> None:
    found = variants(session, passage_at(TEXT, len(TEXT), len(TEXT)))
    assert found.unranked == "no text follows the passage" and not found.fits and found.best is None


# ---- a pick


def ids_of(session: Session) -> list[tuple[str, tuple[int, ...]]]:
    nodes = session.story.nodes(session.story.path(session.node))
    return [(span.text, span.ids) for node in nodes for span in node.spans]


def test_a_pick_is_one_edit_with_the_tokens_of_the_variant(session: Session) -> None:
    current = write_round(session)
    found = variants(session)
    branch = found.generation.branches[1]
    text, ids = branch.text, branch.ids
    Rewriting.of(session).apply(1)
    assert session.text() == BEFORE + text + AFTER
    assert (text, ids) in ids_of(session)
    assert session.round is current and session.stale, "the branches on the screen stay"
    assert session.undo() == "rewritten passage" and session.text() == TEXT
    assert session.redo() == "rewritten passage" and session.text() == BEFORE + text + AFTER


def test_text_by_a_model_around_it_keeps_its_tokens(file: Path) -> None:
    with open_session(file, BEFORE, bundled_model(), n=2, sampling=Sampling(seed=4)) as session:
        write_round(session)
        session.pick(0)
        whole = session.text()
        own = session.story.node(session.node).spans[-1]
        start = len(BEFORE) + len(own.text) // 3
        passage = passage_at(whole, start, start + 20)
        variants(session, passage)
        Rewriting.of(session).apply(0)
        pieces = [ids for _, ids in ids_of(session) if ids]
        flat = [token for ids in pieces for token in ids]
        count = len(flat)
        assert flat[:3] == list(own.ids[:3]) and flat[count - 3 :] == list(own.ids[-3:])


def test_words_typed_meanwhile_stay(session: Session) -> None:
    variants(session)
    session.set_text("Listen! " + TEXT)
    Rewriting.of(session).apply(0)
    assert session.text().startswith("Listen! " + BEFORE) and session.text().endswith(AFTER)
    session.undo()
    assert session.text() == "Listen! " + TEXT


def test_a_passage_that_has_changed_is_not_written_over(session: Session) -> None:
    variants(session)
    changed = TEXT.replace("river", "lake")
    session.set_text(changed)
    with pytest.raises(Refused, match="select it again"):
        Rewriting.of(session).apply(0)
    assert session.text() == changed
    with pytest.raises(Refused, match="select it again"):
        variants(session)


def test_another_attempt_writes_others_and_stops_the_first(session: Session) -> None:
    first, second = variants(session), variants(session)
    assert first.generation.done
    texts = [[branch.text for branch in one.generation.branches] for one in (first, second)]
    assert texts[0] != texts[1]
    Rewriting.of(session).leave()
    assert Rewriting.of(session).variants is None
    with pytest.raises(ValueError, match="no variant 1"):
        Rewriting.of(session).apply(0)
    assert session.text() == TEXT
