"""What is shown when the program has a defect: where the report lies, and that the story is safe."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from srbwriter import logs
from srbwriter.tui.dialog import Dialog


def words(error: BaseException, report: object) -> str:
    """What happened, for a person."""
    where = f"A report with the details is in {report}." if report else "No report could be written."
    return (
        f"srbwriter has a defect: {type(error).__name__}: {error}\n\n"
        f"Your story is safe: every word is saved as it is written.\n\n{where}"
    )


class CrashNote(Dialog[None]):
    """Opens by itself, so that no key closes it that may be meant for a text."""

    DEFAULT_CSS = """
    CrashNote > .box { width: 72; border: heavy $error; padding: 1 2; }
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._words = words(error, logs.write_crash_report(error))

    def content(self) -> ComposeResult:
        yield Static(f"{self._words}\n\nesc goes on.", markup=False)
