"""Opening and closing the workbench: guards first, then the session, then the screen."""

from __future__ import annotations

from pathlib import Path

from srbwriter.config import Settings
from srbwriter.tui import terminal


def open_workbench(settings: Settings, story: Path | None) -> int:
    """Run the app until the writer leaves; returns the exit code."""
    from srbwriter.session import Session
    from srbwriter.tui.app import Workbench

    with terminal.restored(), terminal.guarded():
        app = Workbench(Session.open(settings, story), settings)
        app.run()
        return app.return_code or 0
