"""Opening and closing the app: the guard of the terminal first, then the session, then the screen.

Textual draws on standard error, and llama.cpp writes there too. So the screen gets a copy of the terminal,
which is given back whatever happens, and descriptor 2 goes to the log.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Generator
from pathlib import Path

from srbwriter import launch, paths
from srbwriter.config import Settings
from srbwriter.session import Session
from srbwriter.tui.app import App, Beside
from srbwriter.tui.write.pump import FIRST_SCREEN


class _Screen(io.TextIOWrapper):
    """The output of the terminal; after a hang-up nothing is drawn, without an error.

    Textual writes on a thread with a line of its own. If that thread died of the first error, the line would
    fill up, and the whole app would wait for room in it and obey no signal.
    """

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


@contextlib.contextmanager
def guarded() -> Generator[None]:
    """Keep descriptor 2 for the log and draw on a copy of the terminal until the block ends."""
    paths.make_folder(paths.log_dir())
    screen = os.dup(2 if os.isatty(2) else 1)
    errors = os.dup(2)
    log = os.open(paths.log_dir() / "native.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, paths.OWN_FILE)
    kept = sys.stderr, sys.__stderr__
    sys.stderr.flush()
    os.dup2(log, 2)
    os.close(log)
    stream = _Screen(os.fdopen(screen, "wb", closefd=False), encoding="utf-8", errors="replace")
    sys.stderr = sys.__stderr__ = stream
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            stream.close()  # the terminal itself may have gone
        sys.stderr, sys.__stderr__ = kept  # type: ignore[assignment]
        os.dup2(errors, 2)
        os.close(errors)
        os.close(screen)


BEHIND = 4  # steps of priority by which a key goes before tokens, where both want one core


def open_app(settings: Settings, story: Path | None, beside: Beside | None = None) -> int:
    """Run the app until the writer leaves; returns the exit code. Raises StoryError."""
    loader = launch.loader(settings, nice=BEHIND, after=FIRST_SCREEN)  # its imports would delay that
    settings = launch.suit_model(settings, in_app=True)
    with guarded(), contextlib.ExitStack() as closing:
        session = Session.open(settings, story, loader)
        closing.callback(session.close)  # also when there never was an app
        closing.callback(FIRST_SCREEN.set)
        app = App(session, settings, beside)
        closing.callback(lambda: app.session.close())
        closing.callback(app.fetch.end)
        app.run()
    with contextlib.suppress(OSError):  # messages have gone with the screen, and perhaps the terminal too
        for words in filter(None, [app.session.story.replaced, app.session.unsaved]):
            print(f"srbwriter: {words}", file=sys.stderr, flush=True)
    return app.return_code or 0
