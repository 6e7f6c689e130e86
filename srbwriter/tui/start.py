"""Opening and closing the workbench: guards first, then the session, then the screen."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from srbwriter import launch, paths
from srbwriter.config import Settings
from srbwriter.session import Session
from srbwriter.story import StoryError
from srbwriter.tui import terminal
from srbwriter.tui.app import App

log = logging.getLogger(__name__)

BEHIND = 4  # steps of priority by which a key goes before tokens, where both want one core

Beside = Callable[[Session], AbstractContextManager[str]]
"""What runs in the same process as long as a session is open, for example a server on its engine.

Entered, it gives the address that it listens at.
"""


def _new_hints(hints: list[str | None]) -> list[str]:
    """Those of ``hints`` that no earlier start has given; from now on they are given."""
    file = paths.state_dir() / "hints.txt"
    try:
        given = file.read_text("utf-8").splitlines() if file.exists() else []
        fresh = [hint for hint in hints if hint is not None and hint not in given]
        if fresh:
            paths.write_atomic(file, "\n".join([*given, *fresh, ""]).encode())
    except (OSError, ValueError) as error:
        log.warning("cannot tell which hints were given: %s", error)
        return [hint for hint in hints if hint is not None]
    return fresh


def open_workbench(settings: Settings, story: Path | None, beside: Beside | None = None) -> int:
    """Run the app until the writer leaves; returns the exit code. Raises StoryError."""
    notes = _new_hints([launch.model_hint(settings)])
    loader = launch.loader(settings, nice=BEHIND)
    begins = False
    left: Path | None = None  # the story that the writer has left for this one
    with terminal.restored(), terminal.guarded(), contextlib.ExitStack() as models:
        while True:
            try:
                session = Session.open(settings, story, loader)
            except (StoryError, OSError) as error:
                if left is None:
                    raise
                story, left, notes = left, None, [str(error)]  # nobody is to lose their story by a bad file
                continue
            app = App(session, settings)
            app.notes.extend(notes)
            app.begins = begins
            with contextlib.ExitStack() as running:
                running.callback(session.close)  # also when the app never came to its own end
                if beside is not None:
                    app.address = running.enter_context(beside(session))
                    app.notes.append(f"serving the same model on {app.address}")
                app.run()
            if app.next_story is None:
                return app.return_code or 0
            left = session.story.file
            story, notes, begins = app.next_story, app.next_notes, app.next_begins
            loader = session.loader  # the model stays
            models.callback(loader.close)
