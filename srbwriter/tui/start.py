"""Opening and closing the workbench: guards first, then the session, then the screen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from srbwriter import launch
from srbwriter.config import Settings
from srbwriter.engine.loader import EngineLoader
from srbwriter.session import Session
from srbwriter.tui import terminal
from srbwriter.tui.app import Workbench

Beside = Callable[[Session], AbstractContextManager[str]]
"""What runs in the same process as long as a session is open, for example a server on its engine.

Entered, it gives a line that tells the writer so.
"""


def open_workbench(settings: Settings, story: Path | None, beside: Beside | None = None) -> int:
    """Run the app until the writer leaves; returns the exit code. Raises StoryError."""
    hint = launch.model_hint(settings)
    notes = [hint] if hint is not None else []
    loader: EngineLoader | None = None
    with terminal.restored(), terminal.guarded(), contextlib.ExitStack() as models:
        while True:
            session = Session.open(settings, story, loader)
            app = Workbench(session, settings)
            app.notes.extend(notes)
            with contextlib.ExitStack() as running:
                running.callback(session.close)  # also when the app never came to its own end
                if beside is not None:
                    app.notes.append(running.enter_context(beside(session)))
                app.run()
            if app.next_story is None:
                return app.return_code or 0
            story, notes, loader = app.next_story, app.next_notes, session.loader  # the model stays
            models.callback(loader.close)
