"""The terminal app: a user interface on a Session, and the only package that imports Textual.

It translates keys into calls of the session and paints what branches publish. It never accesses the engine's
internals, the store or the server.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srbwriter.config import Settings
    from srbwriter.tui.app import Beside

__all__ = ["run"]

# Textual repaints at fixed intervals; at its default of 60 per second a key shows up to 17 ms late. A higher
# rate costs nothing while nothing changes, and branches are painted at their own rate (pump.py).
os.environ.setdefault("TEXTUAL_FPS", "120")


def run(settings: Settings, story: Path | None = None, beside: Beside | None = None) -> int:
    """Open the app in this terminal until the writer quits; return the exit code.

    Args:
        settings: the settings of this run.
        story: the story to open; None is the most recent one, or a new one.
        beside: called with the session; returns a context manager that runs something beside the app, such as
            a server, and yields a line to show to the writer.
    Raises:
        StoryError: the story cannot be opened.
    """
    from srbwriter.tui.start import open_app

    return open_app(settings, story, beside)
