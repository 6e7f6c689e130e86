"""The verbs of a session on the real engine: what is shown, what is kept, and what comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import BranchState, EngineOptions, FinishReason, Sampling, Stop
from srbwriter.session import Round, Session
from srbwriter.session.typing import TYPING
from srbwriter.story import Story
from tests.fakes.short_model import short_model

from .conftest import OPTIONS, WAIT, ready

OPENING = "Once upon a time, a fox and a hen shared one umbrella."


def until(session: Session, true: Callable[[], bool]) -> None:
    """Wait for ``true``, looked at whenever the engine or the recorder has done something."""
    deadline = threading.Event()
    timer = threading.Timer(WAIT, deadline.set)
    timer.start()
    try:
        while not true():
            assert not deadline.is_set(), "it did not happen"
            session.keep()
            if isinstance(session.engine, Engine) and session.engine.alive:
                session.engine.flush()
    finally:
        timer.cancel()


def written(session: Session, current: Round) -> Generation:
    """The finished generation of a round, written down."""
    until(session, lambda: current.generation is not None)
    assert current.generation is not None
    current.generation.wait(WAIT)
    until(session, lambda: current.over)
    return current.generation


def begun(session: Session) -> Round:
    session.set_text(OPENING)
    current = session.generate()
    written(session, current)
    return current


def test_a_pick_appends_what_the_pane_shows(session: Session) -> None:
    current = begun(session)
    shown = current.branches[2].text
    session.pick(2)
    assert session.text() == OPENING + shown
    assert len(session.story.children(current.parent)) == 4  # the others stay in the tree


def test_part_of_a_branch_can_be_picked_and_the_rest_stays(session: Session) -> None:
    current = begun(session)
    shown = current.branches[1].text
    node = session.pick(1, upto=7)
    assert session.text() == OPENING + shown[:7]
    assert session.story.text(session.story.children(node)[0]) == OPENING + shown


def test_undo_and_redo_of_a_pick(session: Session) -> None:
    current = begun(session)
    shown = current.branches[0].text
    session.pick(0)
    assert session.undo()
    assert session.text() == OPENING
    assert session.redo()
    assert session.text() == OPENING + shown


def test_the_next_round_goes_on_from_the_cached_prefix(session: Session) -> None:
    begun(session)
    session.pick(3)
    again = written(session, session.generate())
    assert again.cached_tokens >= len(again.prompt_ids) - 1
    session.undo()
    back = written(session, session.generate())
    assert back.cached_tokens == len(back.prompt_ids)


def test_a_reroll_keeps_the_old_take_in_the_tree(session: Session) -> None:
    current = begun(session)
    old = current.branches[1].text
    session.steer(1, "reroll")
    written(session, current)
    texts = [session.story.node(n).text for n in session.story.children(current.parent)]
    assert old in texts
    assert current.branches[1].text in texts
    session.pick(1)
    assert session.text() == OPENING + current.branches[1].text


def test_a_rewound_branch_is_picked_as_it_reads(session: Session) -> None:
    session.set_text(OPENING)
    session.stop = Stop(max_tokens=60, ignore_eog=True)
    current = session.generate()
    written(session, current)
    session.steer(0, "rewind", sentences=1)
    written(session, current)
    shown = current.branches[0].text
    session.pick(0)
    assert session.text() == OPENING + shown


def test_typed_words_in_a_branch_are_the_writers(session: Session) -> None:
    current = begun(session)
    session.append(0, " And so it was.")
    session.steer(0, "extend", stop=6)
    written(session, current)
    shown = current.branches[0].text
    assert " And so it was." in shown
    session.pick(0)
    assert session.text() == OPENING + shown
    path = [session.story.node(n) for n in session.story.path(session.node)]
    assert [n.author for n in path if n.text == " And so it was."] == ["writer"]


def test_words_typed_into_an_ended_branch_stand_between_what_the_model_wrote(session: Session) -> None:
    current = begun(session)
    written(session, current)
    before = current.branches[0].text
    session.append(0, " Suddenly the dra")
    written(session, current)
    shown = current.branches[0].text
    session.pick(0)
    assert session.text() == OPENING + shown
    path = [session.story.node(n) for n in session.story.path(session.node)]
    assert [(n.author, n.text) for n in path[-3:]] == [
        ("model", before),
        ("writer", " Suddenly the dra"),
        ("model", shown.removeprefix(before + " Suddenly the dra")),
    ]
    assert path[-1].text


def test_typed_words_survive_a_crash_before_the_branch_took_them(file: Path, session: Session) -> None:
    current = begun(session)
    node = current.node_of(2)
    session.story.put_value(TYPING, [[node, " Rescued."]])
    text = session.story.text(node)
    session.close()
    reopened = Session(Story.open(file), EngineLoader(short_model(), OPTIONS), options=OPTIONS)
    try:
        below = [reopened.story.text(n) for n in reopened.story.children(node)]
        assert text + " Rescued." in below
        assert not reopened.story.value(TYPING)
    finally:
        reopened.close()


def test_a_pick_while_all_stream_takes_what_was_shown_and_stops_the_rest(session: Session) -> None:
    session.set_text(OPENING)
    session.stop = Stop(max_tokens=400, ignore_eog=True)
    current = session.generate()
    until(session, lambda: all(len(b.text) > 20 for b in current.branches) and len(current.branches) == 4)
    before = current.branches[1].text
    session.pick(1)
    picked = session.text()
    assert picked.startswith(OPENING + before)
    assert (OPENING + current.branches[1].text).startswith(picked)
    written(session, current)
    assert {b.finish_reason for b in current.branches} <= {FinishReason.STOPPED, FinishReason.LENGTH}
    assert session.text() == picked  # what came after the key press does not creep in


def test_everything_generated_is_there_after_closing(file: Path, session: Session) -> None:
    current = begun(session)
    session.generate()
    texts = [b.text for b in current.branches]
    session.close()
    with Story.open(file, readonly=True) as story:
        kept = {story.node(n).text for n in story.reading_order()}
    assert set(texts) <= kept


def test_a_round_asked_for_early_starts_when_the_model_is_there(file: Path) -> None:
    gate = threading.Event()

    def slow(path: object, options: EngineOptions | None, /, *, on_progress: object) -> object:
        from srbwriter.engine.engine import Engine

        gate.wait(WAIT)
        return Engine.load(path, options)  # type: ignore[arg-type]

    loader = EngineLoader(short_model(), OPTIONS, slow)  # type: ignore[arg-type]
    session = Session(Story.create(file), loader, n=2, stop=Stop(max_tokens=5))
    try:
        session.set_text(OPENING)
        current = session.generate()
        assert current.generation is None and session.engine_state == "LOADING"
        gate.set()
        loader.wait(WAIT)
        written(session, current)
        assert all(b.text for b in current.branches)
    finally:
        session.close()


def test_a_round_asked_for_early_that_cannot_be_written_is_refused_in_words(file: Path) -> None:
    gate = threading.Event()

    def slow(path: object, options: EngineOptions | None, /, *, on_progress: object) -> object:
        from srbwriter.engine.engine import Engine

        gate.wait(WAIT)
        return Engine.load(path, options)  # type: ignore[arg-type]

    loader = EngineLoader(short_model(), OPTIONS, slow)  # type: ignore[arg-type]
    session = Session(Story.create(file), loader, n=2, stop=Stop(max_tokens=5))
    try:
        session.set_text(OPENING)
        session.sampling = Sampling(grammar="root ::= (")
        session.generate()
        gate.set()
        until(session, lambda: session.engine_error is not None)
        assert session.round is None
        assert session.engine_state == "READY"
    finally:
        session.close()


def test_a_missing_model_is_an_error_in_words_and_the_story_stays_open(file: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none.gguf"
    session = Session(Story.create(file), EngineLoader(missing, OPTIONS), n=2)
    try:
        with pytest.raises(Exception, match="no such file"):
            session.loader.wait(WAIT)
        assert str(missing) in str(session.engine_error)
        session.set_text("Words without a model.")
        assert session.text() == "Words without a model."
        session.load_model(short_model())
        ready(session)
        assert session.engine_error is None
        current = session.generate()
        written(session, current)
    finally:
        session.close()


def test_a_ladder_gives_every_branch_its_own_rung(session: Session) -> None:
    session.sampling = Sampling(seed=7)
    session.sweep = ("temperature", 0.2, 1.4)
    current = begun(session)
    assert [round(b.sampling.temperature, 2) for b in current.branches] == [0.2, 0.6, 1.0, 1.4]


def test_locked_branches_are_spared(session: Session) -> None:
    current = begun(session)
    kept = current.branches[2].text
    session.lock(2)
    session.reroll_all()
    written(session, current)
    assert current.branches[2].text == kept
    assert current.branches[2].state is BranchState.DONE


@pytest.mark.parametrize(
    ("old", "new"),
    [("Once", "Twice"), ("umbrella", "big umbrella"), ("a fox and a hen", "two"), (OPENING, "All new.")],
)
def test_an_edit_of_typed_words_keeps_what_follows(session: Session, old: str, new: str) -> None:
    current = begun(session)
    shown = current.branches[0].text
    session.pick(0)
    session.set_text(session.text().replace(old, new))
    assert session.text() == OPENING.replace(old, new) + shown


def test_an_edit_of_generated_words_keeps_the_models_own_beside_it(session: Session) -> None:
    current = begun(session)
    shown = current.branches[0].text
    node = session.pick(0)
    changed = shown[:5] + "XYZ" + shown[5:]
    session.set_text(OPENING + changed)
    assert (session.node, session.text()) == (node, OPENING + changed)
    beside = session.story.children(session.story.parent(node))
    assert OPENING + shown in [session.story.text(other) for other in beside]
    session.undo()
    assert session.text() == OPENING + shown
    assert [b.text for b in current.branches] == [
        session.story.node(other).text for other in session.story.children(session.story.parent(node))
    ]


def test_a_branch_that_was_edited_can_be_picked_again_as_it_was(session: Session) -> None:
    current = begun(session)
    shown = current.branches[0].text
    node = session.pick(0)
    session.set_text(OPENING + shown[:5] + "XYZ" + shown[5:])
    session.revisit(current.parent)
    nodes = len(session.story)
    again = session.pick(0)
    assert (session.text(), len(session.story)) == (OPENING + shown, nodes)
    assert again != node
    assert any(span.ids for span in session.story.node(again).spans)


def test_an_edit_across_nodes_gives_the_text_that_was_asked_for(session: Session) -> None:
    for _ in range(3):
        written(session, session.generate() if session.text() else begun(session))
        session.pick(1)
    text = session.text()
    changed = text[: len(OPENING) - 4] + "—" + text[len(OPENING) + 30 :]
    session.set_text(changed)
    assert session.text() == changed


def test_the_context_is_accounted_for(session: Session) -> None:
    begun(session)
    session.pick(0)
    account = session.context()
    assert account.used == sum(p.tokens for p in account.parts)
    assert account.total == 2048
    assert "".join(p.text for p in account.parts if p.source == "story") == session.text()


def test_where_the_model_sees_an_end_branches_have_words_all_the_same(session: Session) -> None:
    session.set_text(f"{OPENING} They shared it every day.\n\nThe end.")
    session.stop = Stop(max_tokens=24)
    current = session.generate()
    written(session, current)
    assert all(len(branch.ids) >= 4 for branch in current.branches)
    assert session.stop.min_tokens == 0
