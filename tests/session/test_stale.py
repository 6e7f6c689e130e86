"""Branches whose text before them has changed since: they are known, and can be taken all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.types import Stop
from srbwriter.session import Session
from srbwriter.session.ahead import Budget
from srbwriter.session.prefix import Prefix
from srbwriter.story import Story

from .conftest import open_session, ready, write_round
from .test_session import until

OPENING = "Mara sat by the lamp. The dark"
RENAMED = OPENING.replace("Mara", "Ilse")
OTHER_END = 'Mara sat by the lamp. "One is missing," she said.'
SHORT = Stop(max_tokens=6, ignore_eog=True)


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with open_session(file, OPENING, bundled_model(), n=8, stop=SHORT) as opened:
        opened.story.end_typing()
        write_round(opened)
        yield opened


def reopened(session: Session, file: Path) -> Session:
    loader = session.loader
    session.close(keep_model=True)
    again = Session(Story.open(file), loader, n=8, stop=SHORT)
    ready(again)
    return again


@pytest.mark.parametrize("changed", [RENAMED, OTHER_END, "Nobody came."])
def test_branches_are_stale_while_the_text_before_them_is_another(session: Session, changed: str) -> None:
    first = session.round
    assert not session.stale
    session.set_text(changed)
    assert session.stale and session.round is first
    session.undo()
    assert not session.stale and session.round is first


def test_a_change_counts_before_it_is_saved_and_typing_it_back_too(session: Session) -> None:
    session.set_text(RENAMED)
    assert session.stale
    session.set_text(OPENING)
    assert not session.stale


def test_words_behind_the_branches_leave_them_as_they_are(session: Session) -> None:
    session.set_text(f"{OPENING}. Nobody came.")
    assert not session.stale


@pytest.mark.parametrize("changed", [RENAMED, OTHER_END, "Nobody came.", f"{OPENING}. Nobody came."])
def test_a_branch_that_is_taken_all_the_same_follows_in_whole_words(session: Session, changed: str) -> None:
    first = session.round
    texts = [branch.text for branch in first.branches]
    inside = next(i for i, text in enumerate(texts) if text[0].isalpha())  # goes on inside "dark"
    session.set_text(changed)
    stale = session.stale
    session.pick(inside)
    own = texts[inside] if changed == RENAMED else f" dark{texts[inside]}"
    assert session.text() == changed + own
    assert [session.story.node(first.node_of(i)).text for i in range(8)] == texts
    following = write_round(session)
    assert not session.stale
    prompt = session.engine.detokenize(following.generation.prompt_ids).strip()
    assert len(prompt) > len(changed) + 8 and (changed + own).startswith(prompt)
    session.undo()
    assert session.text() == changed and session.round is first and session.stale == stale


def test_undoing_the_change_brings_back_the_branches_of_the_text_before_it(session: Session) -> None:
    first = session.round
    session.set_text(RENAMED)
    second = write_round(session)
    assert not session.stale
    session.undo()
    assert session.round is first and not session.stale
    session.redo()
    assert session.round is second and not session.stale


def test_branches_that_are_still_written_go_on_while_the_text_changes(session: Session) -> None:
    session.stop = Stop(max_tokens=400, ignore_eog=True)
    current = session.generate(2)
    session.set_text(RENAMED)
    assert session.stale and any(branch.live for branch in current.branches)
    session.stop_all()


def test_nothing_is_written_ahead_of_picks_of_stale_branches(session: Session) -> None:
    session.look_ahead.budget = Budget("focused", 4096)
    until(session, lambda: session.look_ahead.share(0) == 1.0)
    session.set_text(RENAMED)
    until(session, lambda: session.look_ahead.share(0) is None)
    session.look_ahead.focus(1)
    session.undo()
    until(session, lambda: session.look_ahead.share(1) == 1.0)


def test_a_reopened_story_knows_that_its_branches_are_stale(file: Path, session: Session) -> None:
    texts = {branch.text for branch in session.round.branches}
    session.set_text(RENAMED)
    again = reopened(session, file)
    assert again.round is not None and {branch.text for branch in again.round.branches} == texts
    assert again.stale
    again.undo()
    assert not again.stale
    again.close()


def test_a_reopened_story_shows_the_branches_of_its_text_as_it_is(file: Path, session: Session) -> None:
    session.set_text(RENAMED)
    texts = {branch.text for branch in write_round(session).branches}
    again = reopened(session, file)
    assert again.round is not None and {branch.text for branch in again.round.branches} == texts
    assert not again.stale
    again.close()


@pytest.mark.parametrize(
    ("before", "branch", "now", "expected"),
    [
        ("It rained.", " Then", "It snowed.", " Then"),
        ("It rained. ", "Then", "It snowed.", " Then"),
        ("It rained.", " Then", "It snowed. ", "Then"),
        ("It rained.\n\n", "Then", "It snowed.", "\n\nThen"),
        ("The dark", "ness", "The light", " darkness"),
        ("The dark", "ness", "All is dark", "ness"),
        ("The dark", ", and", "The light", ", and"),
        ("I don", "’t know", "I see", " don’t know"),
        ('He said, "', "Come", 'She asked, "', "Come"),
        ("He said, ", '"Come"', "She asked,", ' "Come"'),
        ("He said", '," and', "She", '," and'),
        ("他说", "今天", "她说。", "今天"),
        ("", "Once", "It rained.", " Once"),
        ("Once", " upon", "", " upon"),
    ],
)
def test_how_a_branch_follows_another_text(before: str, branch: str, now: str, expected: str) -> None:
    assert Prefix.of(before).join(now, branch) == expected
