"""What is shown when a model cannot be loaded: what is wrong, and what to do about it."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from srbwriter import paths


class ModelTrouble(ModalScreen[bool]):
    """Dismissed with True if the writer wants to choose another model."""

    DEFAULT_CSS = """
    ModelTrouble { align: center middle; background: $background 60%; }
    ModelTrouble Vertical {
        width: 78; max-width: 96%; height: auto; background: $surface; border: heavy $error; padding: 1 2;
    }
    ModelTrouble Static { height: auto; }
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(
                Content.assemble(
                    ("The model cannot be loaded\n\n", "bold $text-error"),
                    f"{self._error}\n\n",
                    f"Model files (GGUF) belong into {paths.models_dir()}, or name one with --model FILE. "
                    "Without --model the bundled storyteller is used. You can write and edit without a "
                    "model.\n\n",
                    ("enter", "bold $text-accent"),
                    " chooses another model   ",
                    ("esc", "bold $text-accent"),
                    " goes on without one",
                )
            )

    def on_key(self, event: events.Key) -> None:
        if event.key in ("enter", "m"):
            event.stop()
            self.dismiss(True)
        elif event.key == "escape":
            event.stop()
            self.dismiss(False)
