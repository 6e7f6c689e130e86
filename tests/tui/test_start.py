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


def test_stories_opened_one_after_the_other_share_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path, Engine]] = []
    told: list[list[str]] = []

    class Screenless:
        """A writer who opens a second story, and leaves from there."""

        return_code = 3

        def __init__(self, session: Session, settings: Settings) -> None:
            self.session, self.notes = session, list[str]()
            self.next_story = None if seen else tmp_path / "b.srbw"
            self.next_notes = [] if seen else ["was imported"]

        def run(self) -> None:
            told.append(self.notes)
            seen.append((self.session.story.file, self.session.loader.wait(60)))
            self.session.close(keep_model=self.next_story is not None)
            assert seen[-1][1].alive is (self.next_story is not None)

    monkeypatch.setattr(start, "Workbench", Screenless)
    for guard in ("restored", "guarded"):  # of a terminal that is not here
        monkeypatch.setattr(start.terminal, guard, contextlib.nullcontext)
    settings = load(every_key(), {}, {})
    assert start.open_workbench(settings, tmp_path / "a.srbw") == 3
    (first, engine), (second, other) = seen
    assert (first.name, second.name) == ("a.srbw", "b.srbw")
    assert engine is other
    assert told[1] == ["was imported"]
