"""Text in the middle of the story: for which passage or place, what is asked, its ranks, and a pick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.remote.options import DialectName, RemoteLoader, RemoteOptions
from srbwriter.engine.types import Request, Sampling, Stop
from srbwriter.session import Session
from srbwriter.session import rewriting as rewriting_module
from srbwriter.session.rewriting import (
    FIT_TOKENS,
    MOST_CHARS,
    Passage,
    Rewriting,
    Variant,
    Variants,
    passage_at,
    place_at,
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


@pytest.mark.parametrize(
    ("text", "at", "before", "after", "lead", "joint"),
    [
        ("It rained. He went.", 10, "It rained.", " He went.", " ", ""),
        ("It rained. He went.", 11, "It rained.", " He went.", " ", ""),  # the space belongs to what follows
        ("It rained. He went.", 13, "It rained. He", " went.", " ", ""),  # inside a word
        ("It rained.\n\nHe went.", 12, "It rained.\n\n", "He went.", "", "\n\n"),
        ("It rained.\n\nHe went.", 10, "It rained.", "\n\nHe went.", " ", ""),
        ("He went.", 0, "", "He went.", "", "\n"),
    ],
)
def test_a_place(text: str, at: int, before: str, after: str, lead: str, joint: str) -> None:
    place = place_at(text, at)
    assert (place.before, place.text, place.after) == (before, "", after)
    assert (place.lead, place.joint) == (lead, joint)
    assert place.find(text) == place.start
    assert place.find("More. " + text) == place.start + 6
    assert place.find(text.replace("He", "We")) is None


@pytest.mark.parametrize(
    ("pieces", "text", "passage", "kept"),
    [
        ([" He", " ran", "."], " He ran.", PASSAGE, 3),
        (["\n", "\n", "He", " ran", ".", "\n", "She"], " He ran.", PASSAGE, 3),
        (["\n\nHe", " ran", "."], " He ran.", PASSAGE, 2),
        ([" He", " ran", ".\n", "\n", " She"], " He ran.", PASSAGE, 2),
        ([" He", ".\n", "She", "."], " He.\nShe.", " It.\nThey.", 4),
        (["\n\n", "He", " ran"], " He ran", "", 2),
        ([" ", "\n"], "", PASSAGE, 0),
    ],
)
def test_a_variant_has_no_line_breaks_but_those_of_the_passage(
    pieces: list[str], text: str, passage: str, kept: int
) -> None:
    generation = Generation(1, Request(""), lambda _: None)
    branch = Branch(generation, 0, Sampling(), Stop(), 0)
    for number, piece in enumerate(pieces):
        branch.buffer.pieces.append(piece)
        branch.buffer.ids.append(number)
        branch.buffer.ends.append(sum(map(len, branch.buffer.pieces)))
    variant = Variant.of(branch, Passage(9, 9 + len(passage), passage, "It rained.", " The end."))
    assert variant.text == text and len(variant.ids) == kept
    assert "".join(pieces[one] for one in variant.ids) == variant.spelt


# ---- variants


def variants(session: Session, passage: Passage | None = None, wish: str = "") -> Variants:
    """Variants that have ended and are ranked as far as they can be."""
    rewriting = Rewriting.of(session)
    rewriting.write(passage or passage_at(TEXT, 60, 60), wish)
    rewriting.later(lambda: None).result(WAIT)
    if rewriting.problem is not None:
        raise rewriting.problem
    assert rewriting.variants is not None and rewriting.variants.done
    return rewriting.variants


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with open_session(file, TEXT, bundled_model(), n=3, sampling=Sampling(seed=3)) as opened:
        yield opened


def test_a_gap_is_filled_by_a_model_that_can(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting_module, "fills_gaps", lambda _: True)
    found, engine = variants(session, place_at(TEXT, len(BEFORE))), session.engine
    assert engine is not None and engine.fim is not None
    prefix, suffix, middle = engine.fim
    ids = list(found.generation.prompt_ids)
    assert ids[-1] == middle and engine.detokenize(ids[ids.index(suffix) + 1 : -1]) == PASSAGE + AFTER
    assert engine.detokenize(ids[ids.index(prefix) + 1 : ids.index(suffix)]) == BEFORE
    assert set(found.fits) == {0, 1, 2}


def test_other_models_continue_the_text_before_and_the_text_after_ranks(session: Session) -> None:
    found, engine = variants(session), session.engine
    assert engine is not None and set(found.fits) == {0, 1, 2}
    assert found.best == max((0, 1, 2), key=found.fits.__getitem__)
    assert engine.detokenize(found.generation.prompt_ids) + found.generation.healed == BEFORE
    length = len(engine.tokenize(PASSAGE))
    for branch in found.generation.branches:
        assert length // 2 <= len(branch.ids) <= 2 * length + 8
    [scored] = [g for g in Rewriting.of(session)._running if g.request.score_from][:1]
    following = engine.tokenize_continuation(AFTER)[:FIT_TOKENS]
    assert list(scored.prompt_ids[-len(following) :]) == following
    shown = Rewriting.of(session).shown(0)
    assert engine.detokenize(scored.prompt_ids, special=False) == BEFORE + shown + AFTER


def test_with_a_wish_the_passage_is_named(session: Session) -> None:
    found = variants(session, wish="shorter")
    prompt = session.engine.detokenize(found.generation.prompt_ids)
    assert f"[The passage as it was: {PASSAGE.strip()}]" in prompt and "next passage: shorter]" in prompt


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
    assert found.unranked == "no text follows" and not found.fits and found.best is None


# ---- a pick


def ids_of(session: Session) -> list[tuple[str, tuple[int, ...]]]:
    nodes = session.story.nodes(session.story.path(session.node))
    return [(span.text, span.ids) for node in nodes for span in node.spans]


def test_a_pick_is_one_edit_with_the_tokens_of_the_variant(session: Session) -> None:
    current = write_round(session)
    variants(session)
    text = Rewriting.of(session).shown(1)
    Rewriting.of(session).apply(1)
    assert session.text() == BEFORE + text + AFTER and "\n" not in text
    assert any(ids and own.strip() in text for own, ids in ids_of(session))
    assert session.round is current and session.stale, "the branches on the screen stay"
    assert session.undo() == "text by the model" and session.text() == TEXT
    assert session.redo() == "text by the model" and session.text() == BEFORE + text + AFTER


def test_text_by_a_model_around_a_place_keeps_its_tokens(file: Path) -> None:
    with open_session(file, BEFORE, bundled_model(), n=2, sampling=Sampling(seed=4)) as session:
        write_round(session)
        session.pick(0)
        whole = session.text()
        own = session.story.node(session.node).spans[-1]
        at = whole.index(" ", len(BEFORE) + len(own.text) // 3)
        variants(session, place_at(whole, at))
        shown = Rewriting.of(session).shown(0)
        Rewriting.of(session).apply(0)
        assert session.text() == whole[:at] + shown + whole[at:]
        flat = [token for _, ids in ids_of(session) for token in ids]
        kept = [token for token in flat if token in own.ids]
        assert len(kept) >= len(own.ids), "what follows keeps its tokens too"
        assert flat[:3] == list(own.ids[:3]) and flat[-3:] == list(own.ids[-3:])
        session.undo()
        assert session.text() == whole and session.story.node(session.node).spans[-1] == own


def test_a_new_paragraph_is_parted_from_the_next_one(session: Session) -> None:
    at = TEXT.index("The end.")
    variants(session, place_at(TEXT, at))
    shown = Rewriting.of(session).shown(0)
    Rewriting.of(session).apply(0)
    assert session.text() == f"{TEXT[:at]}{shown}\n\nThe end." and shown == shown.strip()


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
