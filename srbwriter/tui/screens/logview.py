"""The log: the last lines that the program and the model library wrote."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual.widgets import Static, TextArea

from srbwriter import paths
from srbwriter.tui.dialog import Page

_BYTES = 60_000


def tail(file: Path, size: int = _BYTES) -> str:
    """The last ``size`` bytes of a file, from a line's beginning on; empty if there is none."""
    try:
        with file.open("rb") as stream:
            stream.seek(0, 2)
            start = max(0, stream.tell() - size)
            stream.seek(start)
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return text.split("\n", 1)[-1] if start else text


class LogView(Page[None]):
    """The end of both logs, the newest lines in view."""

    DEFAULT_CSS = """
    LogView TextArea { border: none; height: 1fr; }
    LogView Static { background: $panel; color: $text-muted; height: auto; padding: 0 1; }
    """

    def compose(self) -> ComposeResult:
        text = tail(paths.log_file()) + tail(paths.log_dir() / "native.log")
        yield TextArea(text or "Nothing has been logged yet.", read_only=True, soft_wrap=True)
        yield Static(f"{paths.log_file()} · esc goes back", markup=False)

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.focus()
        area.move_cursor(area.document.end)
