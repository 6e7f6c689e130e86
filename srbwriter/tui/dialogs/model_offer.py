"""The offer of a larger model to a writer who uses the bundled one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.demo import bundled_model
from srbwriter.tui.write import hints

if TYPE_CHECKING:
    from srbwriter.config import Settings
    from srbwriter.tui.program import Writer

PICKS = 10
"""Picks before the offer is made."""
_HINT = "recommended models"


class ModelOffer:
    """Shows once, in the status line, which key lists larger models.

    It is due after ten picks, or when the first story has been left, and waits until the writer pauses. It is
    never repeated, in this run or later, nor made to a writer who has seen the list or chosen a model.
    """

    def __init__(self, settings: Settings) -> None:
        self._pending = launch.model_key(settings) is None and not launch.elsewhere(settings)
        self._picks = 0

    @property
    def is_due(self) -> bool:
        """Whether to make the offer as soon as the writer pauses."""
        return self._pending and self._picks >= PICKS

    def count_pick(self) -> None:
        self._picks += 1

    def leave_story(self) -> None:
        """Record that the writer left a story."""
        self._picks = PICKS

    def withdraw(self) -> None:
        """Record that the writer has seen the list of models."""
        if self._pending:
            self._pending = False
            hints.give_once(_HINT)

    def watch(self, screen: Writer) -> None:
        """Make the offer if it is due and the writer pauses. Called by the pump."""
        if not self.is_due or not self._may_speak(screen):
            return
        from srbwriter.models import Machine, memory, memory_budget, read_recommended, recommend

        self._pending = False
        # How fast the machine is, the list measures: here it would delay a key.
        model, _ = recommend(read_recommended().models, Machine(memory(), memory_budget()))
        if model is not None and hints.give_once(_HINT):
            way = screen.app.way_to("model")
            screen.notify(f"Larger models write better prose. {way} lists free ones that fit this machine.")

    @staticmethod
    def _may_speak(screen: Writer) -> bool:
        app, model = screen.app, screen.session.model
        if model is None or Path(model.path) != bundled_model():
            return False
        ready = app.keyboard.is_open and screen.on_top
        return ready and app.writer_rests and not app.messages.current
