"""Opening and closing the workbench: guards first, then the session, then the screen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from srbwriter.config import Settings
from srbwriter.session import Session
from srbwriter.tui import terminal
from srbwriter.tui.app import Workbench

Beside = Callable[[Session], AbstractContextManager[Any]]
"""What runs in the same process as long as a session is open, for example a server on its engine."""


def open_workbench(settings: Settings, story: Path | None, beside: Beside | None = None) -> int:
    """Run the app until the writer leaves; returns the exit code. Raises StoryError."""
    with terminal.restored(), terminal.guarded():
        while True:
            session = Session.open(settings, story)
            app = Workbench(session, settings)
            with contextlib.ExitStack() as running:
                running.callback(session.close)  # also when the app never came to its own end
                if beside is not None:
                    running.enter_context(beside(session))
                app.run()
            if app.next_story is None:
                return app.return_code or 0
            story = app.next_story
