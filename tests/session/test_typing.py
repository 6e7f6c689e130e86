"""Typed words and who owns them: on the disk in time, there after any crash, once, and never forgotten."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter.engine.loader import EngineLoader
from srbwriter.session import Session
from srbwriter.session.recorder import Recorder
from srbwriter.session.typing import Draft, Typing, rescued, sheets_left, take_up
from srbwriter.story import ROOT, NotSaved, Refused, Settings, Story, StoryError

from .conftest import OPTIONS

WAIT = 30.0


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    opened = Story.create(tmp_path / "story.srbw", "Rain")
    yield opened
    opened.close()


class Desk:
    """A story with the owner of its unsaved words and its recorder, as a session puts them together."""

    def __init__(self, story: Story, rescue: Path) -> None:
        self.story = story
        self.clock = Clock()
        self.typing = Typing(story, story.set_text, rescue, self.clock)
        self.recorder = Recorder(story, self.typing, threading.RLock())

    def draft(self, sheet: str) -> Draft:
        return Draft(self.typing, self.story, sheet)


@pytest.fixture
def desk(story: Story, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(story, tmp_path / "state" / "rescued")
    yield made
    made.recorder._closing = True


def by_hand(desk: Desk) -> Desk:
    """The recorder's thread stays away; the test writes."""
    desk.typing.on_key.clear()
    return desk


def full(story: Story, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def commit() -> None:
        raise NotSaved(story.file, "database or disk is full", full=True)

    monkeypatch.setattr(story._document.store, "commit", commit)
    return monkeypatch


# -- in time -----------------------------------------------------------------------------------------------


def test_words_go_to_the_disk_while_typing_goes_on(desk: Desk) -> None:
    """No key is ever followed by a pause; the recorder writes all the same."""
    text, seen = "", threading.Event()
    written = desk.typing.written

    def note() -> None:
        written()
        if desk.story.text(desk.story.current):
            seen.set()

    desk.typing.written = note  # type: ignore[method-assign]
    deadline = threading.Timer(WAIT, seen.set)
    deadline.start()
    while not seen.is_set():
        text += "a"
        desk.typing.text(text)
    deadline.cancel()
    assert desk.story.text(desk.story.current)


def test_what_is_saved_is_said_to_be_saved_and_nothing_else(desk: Desk) -> None:
    by_hand(desk)
    assert desk.typing.state.saved
    desk.typing.text("One")
    desk.clock.now += 3
    desk.draft("memory").typed("A harbour.")
    desk.clock.now += 2
    state = desk.typing.state
    assert not state.saved and state.seconds == 5 and state.trouble is None
    desk.recorder.write()
    assert desk.typing.state.saved
    assert desk.story.text(desk.story.current) == "One"
    assert sheets_left(desk.story) == ["memory"]


def test_edits_in_two_places_are_two_things_to_undo_though_they_are_saved_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(desk)
    first, story = desk.story.append("One. Two."), desk.story
    [middle] = story.add(first, [" Three. Four."], "model", stand=True)
    [last] = story.add(middle, [" Five. Six."], stand=True)
    desk.typing.shown(story.text(last))
    with monkeypatch.context() as disk:
        full(story, disk)
        for text in ("One! Two. Three. Four. Five. Six.", "One!! Two. Three. Four. Five. Six."):
            desk.typing.text(text)
        with pytest.raises(NotSaved):
            desk.recorder.write()
        for text in ("One!! Two. Three. Four. Five? Six.", "One!! Two. Three. Four. Five?? Six."):
            desk.typing.text(text)
    desk.recorder.write()
    assert story.text(story.current) == "One!! Two. Three. Four. Five?? Six."
    assert story.node(middle).text == " Three. Four."
    story.undo()
    assert story.text(story.current) == "One!! Two. Three. Four. Five. Six."
    story.undo()
    assert story.text(story.current) == "One. Two. Three. Four. Five. Six."


def test_a_verb_takes_what_was_typed_before_it_along(desk: Desk) -> None:
    by_hand(desk)
    desk.typing.text("It rained.")
    [node] = desk.recorder.together(lambda: desk.story.add(ROOT, ["Other."]))
    assert desk.story.text(desk.story.current) == "It rained."
    assert desk.story.text(node) == "Other."
    desk.typing.text("It rained. Twice.")
    with pytest.raises(Refused):
        desk.recorder.together(lambda: desk.story.split(node, 99))
    assert desk.story.text(desk.story.current) == "It rained."
    assert not desk.typing.state.saved  # and still waits
    desk.recorder.write()
    assert desk.story.text(desk.story.current) == "It rained. Twice."


# -- a disk that refuses -----------------------------------------------------------------------------------


def test_a_full_disk_keeps_words_says_so_and_gets_them_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(desk)
    with monkeypatch.context() as disk:
        full(desk.story, disk)
        for text in ("alpha", "alpha beta", "alpha beta gamma"):
            desk.typing.text(text)
            with pytest.raises(NotSaved):
                desk.recorder.write()
        desk.draft("memory").typed("A harbour.")
        with pytest.raises(NotSaved):
            desk.recorder.write()
        assert isinstance(desk.typing.state.trouble, NotSaved)
        found = rescued(desk.typing.folder.parent)
        assert found is not None and found.words == {"": "alpha beta gamma", "memory": "A harbour."}
    desk.recorder.write()
    assert desk.typing.state.saved
    assert desk.story.text(desk.story.current) == "alpha beta gamma"
    assert not desk.typing.folder.exists()
    assert desk.story.undo() is not None
    assert desk.story.text(desk.story.current) == ""


def test_it_is_tried_again_without_being_asked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, saved = threading.Event(), threading.Event()
    commit, written = desk.story._document.store.commit, desk.typing.written

    def once() -> None:
        monkeypatch.setattr(desk.story._document.store, "commit", commit)
        refused.set()
        raise NotSaved(desk.story.file, "the folder is away", full=False)

    def note() -> None:
        written()
        saved.set()

    monkeypatch.setattr(desk.story._document.store, "commit", once)
    desk.typing.written = note  # type: ignore[method-assign]
    desk.typing.text("alpha")
    assert refused.wait(WAIT) and saved.wait(WAIT)
    assert desk.story.text(desk.story.current) == "alpha"


def test_words_without_a_place_are_said_to_be_unsaved(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is still written, or a defect of ours."""
    by_hand(desk)
    for problem in (Refused("node 7 is still being written"), RuntimeError("a defect")):

        def fails(text: str, problem: Exception = problem) -> None:
            raise problem

        with monkeypatch.context() as trouble:
            trouble.setattr(desk.typing, "_set_text", fails)
            desk.typing.text("alpha")
            with pytest.raises(StoryError, match="still being written|a defect"):
                desk.recorder.write()
            assert not desk.typing.state.saved and desk.typing.state.trouble is not None
            found = rescued(desk.typing.folder.parent)
            assert found is not None and found.words == {"": "alpha"}
        desk.recorder.write()
        assert desk.story.text(desk.story.current) == "alpha"
        assert desk.typing.state.saved and rescued(desk.typing.folder.parent) is None
        desk.typing.text("")
        desk.recorder.write()


def test_what_is_not_saved_is_counted_in_words_and_seconds(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(desk)
    desk.typing.text("It rained.")
    assert str(desk.typing.state) == "saving"
    desk.clock.now += 3
    assert str(desk.typing.state) == "saving for 3 s"
    desk.recorder.write()
    assert str(desk.typing.state) == "saved"
    full(desk.story, monkeypatch)
    desk.typing.text("It rained. All day")
    desk.typing.setting("memory", "A harbour town", put_memory, "A harbour")
    with pytest.raises(NotSaved):
        desk.recorder.write()
    desk.clock.now += 5
    assert str(desk.typing.state) == "NOT SAVED: 3 words, 5 s, the disk is full"


def put_memory(settings: Settings, words: str) -> Settings:
    return replace(settings, memory=words)


def test_words_of_a_setting_are_written_down_or_rescued(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand(desk)
    desk.typing.setting("memory", "A harbour", put_memory, "")
    desk.recorder.write()
    assert desk.story.own_settings(ROOT).memory == "A harbour" and desk.typing.state.saved
    with monkeypatch.context() as trouble:
        full(desk.story, trouble)
        desk.typing.setting("memory", "A harbour town", put_memory, "")
        with pytest.raises(NotSaved):
            desk.recorder.write()
        assert desk.story.own_settings(ROOT).memory == "A harbour"
        found = rescued(desk.typing.folder.parent)
        assert found is not None and found.words == {"memory": "A harbour town"}
    desk.recorder.write()
    assert desk.story.own_settings(ROOT).memory == "A harbour town"
    assert rescued(desk.typing.folder.parent) is None


def test_a_rescue_file_that_cannot_be_written_ends_nothing(story: Story, tmp_path: Path) -> None:
    (tmp_path / "wall").write_text("no folder")
    typing = Typing(story, lambda text: None, tmp_path / "wall" / "rescued")
    typing.text("alpha")
    typing.refused(StoryError("full"))
    assert typing.rescue() is None
    assert not typing.state.saved


# -- sheets ------------------------------------------------------------------------------------------------


def test_words_are_there_until_they_are_dropped(desk: Desk) -> None:
    by_hand(desk)
    draft = desk.draft("memory")
    assert draft.words is None and sheets_left(desk.story) == []
    draft.typed("A harb")
    draft.typed("A harbour.")
    desk.draft("author_note").typed("Slowly.")
    desk.recorder.write()
    with Story.open(desk.story.file, readonly=True) as again:
        assert Draft(desk.typing, again, "memory").words == "A harbour."
        assert sheets_left(again) == ["memory", "author_note"]
    draft.drop()
    draft.drop()
    desk.recorder.write()
    assert desk.draft("memory").words is None
    assert desk.draft("author_note").words == "Slowly."


def test_a_sheet_that_is_taken_and_its_draft_go_in_one_transaction(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(desk)
    draft = desk.draft("note of node 2")
    node = desk.story.append("It rained.")
    draft.typed("wet")
    desk.recorder.write()
    may_write: list[bool] = []

    def take(words: str) -> bool:
        lock = desk.recorder._lock
        other = threading.Thread(target=lambda: may_write.append(lock.acquire(blocking=False)))
        other.start()
        other.join(WAIT)
        try:
            desk.recorder.together(lambda: desk.story.mark(node, note=words))
        except NotSaved:
            return False
        return True

    with monkeypatch.context() as disk:
        full(desk.story, disk)
        assert not draft.give("wet", take)
        with pytest.raises(NotSaved):
            desk.recorder.write()
    assert sheets_left(desk.story) == ["note of node 2"]
    assert draft.give("wet", take)
    assert may_write == [False, False]  # the sheet alone would be taken off
    assert sheets_left(desk.story) == []
    assert desk.story.marks(node).note == "wet"


def test_rescued_words_for_a_branch_become_a_node_and_lines_stay_as_they_are(
    story: Story, tmp_path: Path
) -> None:
    node = story.append("It rained.")
    desk = by_hand(Desk(story, tmp_path / "rescued"))
    desk.typing.text("It rained.\r\n\tTwice.")
    desk.draft(Draft.below(node, 2)).typed(" All night.")
    desk.typing.rescue()
    found = rescued(tmp_path / "rescued")
    found.take(story)
    assert story.text(story.current) == "It rained.\r\n\tTwice."
    assert " All night." in [story.node(child).text for child in story.children(node)]
    assert story.undo() is not None
    assert story.text(story.current) == "It rained."


def test_words_for_the_story_become_a_node(desk: Desk) -> None:
    by_hand(desk)
    node = desk.story.append("It rained.", ROOT)
    desk.draft(Draft.below(node, 2)).typed(" All night.")
    desk.draft(Draft.below(node, 3)).typed(" \n")
    desk.draft("memory").typed("A harbour.")
    desk.recorder.write()
    assert desk.draft(Draft.below(node, 2)).words is None  # nothing to go on with: they will be in the tree
    assert take_up(desk.story) == 1
    assert [desk.story.text(child) for child in desk.story.children(node)] == ["It rained. All night."]
    assert sheets_left(desk.story) == ["memory"]


def test_words_that_version_0_5_had_for_a_running_branch_become_a_node(desk: Desk) -> None:
    node = desk.story.append("It rained.", ROOT)
    desk.story.put_value("typing", [[node, " All night."], [4711, " Still."]])
    assert take_up(desk.story) == 2
    assert [desk.story.text(child) for child in desk.story.children(node)] == ["It rained. All night."]
    assert " Still." in [desk.story.text(child) for child in desk.story.children(ROOT)]
    assert take_up(desk.story) == 0


@pytest.mark.parametrize("place", ["below:4711", "below:-1", "below:", "below:x"])
def test_words_whose_place_is_gone_are_kept_below_the_root(desk: Desk, place: str) -> None:
    by_hand(desk).draft(place).typed("Lost?")
    desk.recorder.write()
    assert take_up(desk.story) == 1
    assert sheets_left(desk.story) == []
    assert [desk.story.text(child) for child in desk.story.children(ROOT)] == ["Lost?"]


def test_words_that_the_disk_refused_are_offered_by_the_next_start(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(story: Story) -> Session:
        return Session(story, EngineLoader(file.with_name("none.gguf"), OPTIONS))

    session = opened(Story.create(file))
    session.set_text("It rained.")
    with monkeypatch.context() as disk:
        full(session.story, disk)
        session.typing.text("It rained. All night.")
        session.draft("memory").typed("A harbour.")
        with pytest.raises(NotSaved):
            session.keep()
        session.close()
    session = opened(Story.open(file))
    assert session.text() == "It rained."
    session.take_rescued()
    assert session.text() == "It rained. All night."
    assert session.draft("memory").words == "A harbour."
    session.undo()
    assert session.text() == "It rained."
    session.close()
    again = opened(Story.open(file))
    assert again.rescued is None
    again.close()
