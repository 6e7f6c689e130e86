"""What is typed arrives as edits: the same words, actions and drafts as where the whole text is handed in."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from srbwriter.session.typing import rescued
from srbwriter.story import Edit, NotSaved, Story
from srbwriter.story.diff import apply_edits
from tests.session.test_typing import Desk, by_hand, full
from tests.sizes import examples
from tests.story.branches import generated, sizes
from tests.story.test_replace import looks, random_edit


def without_thread(desk: Desk) -> Desk:
    """Nothing is written but by the test, not even again after the disk refused."""
    desk.recorder._closing = True
    return by_hand(desk)


class Twins:
    """Two desks: on the first the whole text is handed in with every key, on the second the edit alone."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng, self.now, self.near = random.Random(seed), 0.0, 0
        self.desks = [self.desk(folder, f"{seed}-{side}") for side in "ab"]
        self.text = ""
        self.shown()

    def desk(self, folder: Path, name: str) -> Desk:
        story = Story.create(folder / f"{name}.srbw")
        story.use_token_sizes(sizes)
        story._clock = lambda: self.now
        story._document.store.db.execute("PRAGMA synchronous = OFF")
        for text in ("The fox ran. ", "Aa b. ", "They rest. "):
            story.pick(generated(story, story.current, text, "other")[0])
        return without_thread(Desk(story, folder / name))

    def shown(self) -> None:
        story = self.desks[0].story
        self.text = story.text(story.current)
        for desk in self.desks:
            desk.typing.shown(desk.story.text(desk.story.current))

    def type(self) -> None:
        self.now += self.rng.choice((0.1, 0.1, 5.0))
        edit = random_edit(self.rng, self.text, self.near)
        while edit.text == self.text[edit.start : edit.end]:
            edit = random_edit(self.rng, self.text, self.near)
        self.near = edit.start + len(edit.text)
        self.text = apply_edits(self.text, [edit])
        self.desks[0].typing.text(self.text)
        self.desks[1].typing.edit(edit)

    def write(self, monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
        assert [desk.typing.waiting for desk in self.desks] in ([True, True], [False, False])
        refused = refused and self.desks[0].typing.waiting
        with monkeypatch.context() as disk:
            for desk in self.desks:
                if refused:
                    full(desk.story, disk)
                    with pytest.raises(NotSaved):
                        desk.recorder.write()
                else:
                    desk.recorder.write()

    def write_during_which_keys_come(self, monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
        """Both are in the middle of a commit when the same keys come."""
        first, second = self.desks
        self.type()  # so that there is something to write
        commits = first.story._document.store.commit, second.story._document.store.commit

        def end(commit: Callable[[], None], story: Story) -> None:
            if refused:
                raise NotSaved(story.file, "full", full=True)
            commit()

        def outer() -> None:
            def inner() -> None:
                for _ in range(self.rng.randint(1, 4)):
                    self.type()
                end(commits[1], second.story)

            with monkeypatch.context() as disk:
                disk.setattr(second.story._document.store, "commit", inner)
                self.attempt(second, refused)
            end(commits[0], first.story)

        with monkeypatch.context() as disk:
            disk.setattr(first.story._document.store, "commit", outer)
            self.attempt(first, refused)

    def attempt(self, desk: Desk, refused: bool) -> None:
        if refused:
            with pytest.raises(NotSaved):
                desk.recorder.write()
        else:
            desk.recorder.write()

    def undo(self) -> None:
        for desk in self.desks:
            desk.recorder.together(desk.story.undo if self.near % 2 else desk.story.redo)
        self.shown()

    def same(self) -> None:
        for desk in self.desks:
            desk.recorder.write()
            assert desk.story.text(desk.story.current) == self.text
            assert desk.typing.state.saved
        assert looks(self.desks[0].story) == looks(self.desks[1].story)

    def close(self) -> None:
        for desk in self.desks:
            desk.story.close()


@pytest.mark.parametrize("seed", range(examples(12)))
def test_edits_and_whole_texts_lead_to_the_same_story(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    twins = Twins(tmp_path, seed)
    try:
        for _ in range(40):
            kind = twins.rng.random()
            if kind < 0.7:
                twins.type()
            elif kind < 0.8:
                twins.write(monkeypatch, twins.rng.random() < 0.4)
            elif kind < 0.88:
                twins.write_during_which_keys_come(monkeypatch, twins.rng.random() < 0.4)
            elif kind < 0.94:
                twins.undo()
            else:
                twins.same()
        twins.same()
    finally:
        twins.close()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    story = Story.create(tmp_path / "story.srbw")
    story.append("One fox, two foxes.")
    story.end_typing()
    return without_thread(Desk(story, tmp_path / "rescued"))


def test_words_typed_before_anything_was_shown_join_the_story(desk: Desk) -> None:
    desk.typing.edit(Edit(3, 3, " red"))
    desk.recorder.write()
    assert desk.story.text(desk.story.current) == "One red fox, two foxes."


def test_a_story_that_has_changed_meanwhile_gets_the_text_that_was_typed(desk: Desk) -> None:
    """No words go to a place that means another one by now."""
    desk.typing.shown(desk.story.text(desk.story.current))
    desk.typing.edit(Edit(4, 7, "hen"))
    desk.story.append(" And more of them.")
    desk.recorder.write()
    assert desk.story.text(desk.story.current) == "One hen, two foxes."
    desk.typing.edit(Edit(0, 3, "A"))
    desk.recorder.write()
    assert desk.story.text(desk.story.current) == "A hen, two foxes."


def test_edits_that_wait_are_rescued_as_the_text_they_make(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.typing.shown(desk.story.text(desk.story.current))
    with monkeypatch.context() as disk:
        full(desk.story, disk)
        desk.typing.edit(Edit(4, 7, "hen"), Edit(13, 16, "hen"))
        with pytest.raises(NotSaved):
            desk.recorder.write()
    found = rescued(desk.typing.folder.parent)
    assert found is not None and found.words == {"": "One hen, two henes."}
    desk.recorder.write()
    assert desk.story.text(desk.story.current) == "One hen, two henes."
    desk.story.undo()
    assert desk.story.text(desk.story.current) == "One fox, two foxes."


def test_places_without_number_that_wait_for_the_disk_are_bounded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = desk.story.text(desk.story.current)
    desk.typing.shown(text)
    with monkeypatch.context() as disk:
        full(desk.story, disk)
        for number in range(700):
            edit = Edit(0, 0, "a") if number % 2 else Edit(len(text), len(text), "z")
            text = apply_edits(text, [edit])
            desk.typing.edit(edit)
    assert len(desk.typing._story_field().steps) <= 256
    desk.recorder.write()
    assert desk.story.text(desk.story.current) == text
