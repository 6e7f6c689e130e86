"""From one story to the next: the screen begins again, the model does not."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from srbwriter.cli.table import every_key
from srbwriter.config import Settings, load
from srbwriter.engine.engine import Engine
from srbwriter.session import Session
from srbwriter.tui import start
from srbwriter.tui.dialogs.model import ModelFetch, ModelOffer
from srbwriter.tui.options import Preferences


def test_where_the_next_story_cannot_be_opened_the_one_before_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.srbw"
    bad.write_text("no story")
    seen: list[tuple[str, list[str]]] = []

    class Screenless:
        return_code = 0

        def __init__(self, session: Session, settings: Settings, preferences: Preferences) -> None:
            self.session, self.notes = session, list[str]()
            self.next_story = None if seen else bad
            self.next_begins = self.on_branches = False
            self.next_notes: list[str] = []

        def run(self) -> None:
            seen.append((self.session.story.file.name, self.notes))
            self.session.close(keep_model=self.next_story is not None)

    monkeypatch.setattr(start, "App", Screenless)
    monkeypatch.setattr(start, "guarded", contextlib.nullcontext)
    assert start.open_app(load(every_key(), {}, {}), tmp_path / "a.srbw") == 0
    [(first, _), (second, notes)] = seen
    assert (first, second) == ("a.srbw", "a.srbw")
    assert len(notes) == 1 and "bad.srbw" in notes[0]


def test_stories_opened_one_after_the_other_share_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path, Engine]] = []
    running: list[tuple[ModelFetch, ModelOffer]] = []
    notes: list[list[str]] = []

    class Screenless:
        """A writer who opens a second story, and leaves from there."""

        return_code = 3
        fetch: ModelFetch
        offer: ModelOffer

        def __init__(self, session: Session, settings: Settings, preferences: Preferences) -> None:
            self.session, self.notes = session, list[str]()
            self.next_story = None if seen else tmp_path / "b.srbw"
            self.next_begins = self.on_branches = False
            self.next_notes = [] if seen else ["was imported"]

        def run(self) -> None:
            notes.append(self.notes)
            running.append((self.fetch, self.offer))
            assert self.offer.is_due == bool(seen), "a larger model is offered when a story has been left"
            seen.append((self.session.story.file, self.session.loader.wait(60)))
            self.session.close(keep_model=self.next_story is not None)
            assert seen[-1][1].alive is (self.next_story is not None)

    monkeypatch.setattr(start, "App", Screenless)
    monkeypatch.setattr(start, "guarded", contextlib.nullcontext)  # of a terminal that is not here
    settings = load(every_key(), {}, {})
    assert start.open_app(settings, tmp_path / "a.srbw") == 3
    (first, engine), (second, other) = seen
    assert (first.name, second.name) == ("a.srbw", "b.srbw")
    assert engine is other
    assert running[0] == running[1], "the download of a model goes on in the next story"
    assert notes[1] == ["was imported"]
