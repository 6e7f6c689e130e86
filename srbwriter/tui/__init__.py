"""The terminal app, a thin face on a Session. The only room that imports Textual, and only when it is run.

It translates keys into verbs of the session and paints what branches publish. It must never touch the
engine's insides, the store or the server.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srbwriter.config import Settings
    from srbwriter.tui.start import Beside

__all__ = ["run"]

# Textual paints what a key has changed at the end of a period. With sixty a second, its own number, that is
# up to 17 ms later. While nothing changes nothing is painted, and branches have a pace of their own.
os.environ.setdefault("TEXTUAL_FPS", "120")


def run(settings: Settings, story: Path | None = None, beside: Beside | None = None) -> int:
    """Open the app in this terminal until the writer leaves; returns the exit code.

    Args:
        settings: what holds in this run.
        story: the story to open; None is the one left last, or a new one.
        beside: given the session, returns what is to run as long as it is open, such as a server, and a line
            that tells the writer so.

    Raises:
        StoryError: the story cannot be opened.
    """
    gc.disable()  # until the first screen stands: what is made before that stays
    from srbwriter.tui.start import open_app

    return open_app(settings, story, beside)
