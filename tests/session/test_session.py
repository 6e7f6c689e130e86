"""The verbs of a session on the real engine: what is shown, what is kept, and what comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import EngineOptions, FinishReason, Sampling, Stop
from srbwriter.session import Round, Session
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
    current.generation.wait(WAIT)
    until(session, lambda: current.over)
    return current.generation


def begun(session: Session) -> Round:
    session.set_text(OPENING)
    current = session.generate()
    written(session, current)
    return current


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


def test_an_edit_of_generated_words_keeps_the_models_own_beside_it(session: Session) -> None:
    current = begun(session)
    shown = current.branches[0].text
    node = session.pick(0)
    changed = shown[:5] + "XYZ" + shown[5:]
    session.set_text(OPENING + changed)
    assert session.text() == OPENING + changed and session.node != node
    beside = session.story.children(session.story.node(node).parent)
    assert OPENING + shown in [session.story.text(other) for other in beside]
    session.undo()
    assert session.text() == OPENING + shown
    assert [b.text for b in current.branches] == [
        session.story.node(other).text for other in session.story.children(session.story.node(node).parent)
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
    assert again == node
    assert any(span.ids for span in session.story.node(again).spans)


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
