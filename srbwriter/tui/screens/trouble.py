"""What is shown when there is no model, broken or broken off: what is wrong, and what to do about it."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from srbwriter import paths
from srbwriter.engine.types import Cancelled
from srbwriter.tui.dialog import Dialog

CHOOSE, AGAIN, WITHOUT = "choose", "again", "without"


class ModelTrouble(Dialog[str]):
    """Dismissed with CHOOSE another model, load it AGAIN, or go on WITHOUT one."""

    DEFAULT_CSS = """
    ModelTrouble > .box { width: 78; border: heavy $error; padding: 1 2; }
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def content(self) -> ComposeResult:
        stopped = isinstance(self._error, Cancelled)
        title = "Loading the model was stopped" if stopped else "The model cannot be loaded"
        yield Static(
            Content.assemble(
                (f"{title}\n\n", "bold $text-error"),
                f"{self._error}\n\n",
                f"Model files (GGUF) belong in {paths.models_dir()}, or name one with --model FILE. "
                "Without --model the bundled storyteller is used. You can write and edit without a "
                "model.\n\n",
                ("enter", "bold $text-accent"),
                " chooses another model   ",
                ("r", "bold $text-accent"),
                " tries again   ",
                ("esc", "bold $text-accent"),
                " goes on without one",
            )
        )

    def on_key(self, event: events.Key) -> None:
        chosen = {"enter": CHOOSE, "m": CHOOSE, "r": AGAIN}.get(event.key)
        if chosen is not None:
            event.stop()
            self.close(chosen)
