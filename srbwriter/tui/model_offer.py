"""The one offer of a larger model to a writer who writes with the bundled one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.demo import bundled_model
from srbwriter.tui import hints

if TYPE_CHECKING:
    from srbwriter.config import Settings
    from srbwriter.tui.write_screen import WriteScreen

PICKS = 10
"""Picks after which the offer is due."""
_HINT = "recommended models"


class ModelOffer:
    """Says once, in the line at the foot, which key lists larger models.

    It is due after ten picks, or when the first story has been left. It waits until the writer rests, and is
    never made again, in this run or a later one; nor to a writer who has seen the list or named a model.
    """

    def __init__(self, settings: Settings) -> None:
        self._wanted = launch.model_key(settings) is None and not launch.elsewhere(settings)
        self._picks = 0

    @property
    def is_due(self) -> bool:
        """Whether it is to be made as soon as the writer rests."""
        return self._wanted and self._picks >= PICKS

    def count_pick(self) -> None:
        self._picks += 1

    def leave_story(self) -> None:
        """Note that a story was left before this one."""
        self._picks = PICKS

    def withdraw(self) -> None:
        """Note that the writer has found the list of models."""
        if self._wanted:
            self._wanted = False
            hints.give_once(_HINT)

    def watch(self, screen: WriteScreen) -> None:
        """Make the offer if it is due and disturbs nobody. Called by the pump."""
        if not self.is_due or not self._may_speak(screen):
            return
        from srbwriter.models import memory_budget, models_that_fit, read_recommended

        self._wanted = False
        if models_that_fit(read_recommended().models, memory_budget()) and hints.give_once(_HINT):
            keys = screen.keys_on_branch("model")
            screen.notify(f"Larger models write better prose. {keys} lists free ones that fit this machine.")

    @staticmethod
    def _may_speak(screen: WriteScreen) -> bool:
        app, model = screen.app, screen.session.model
        if model is None or Path(model.path) != bundled_model():
            return False
        stands = app.keyboard.is_open and app.screen is screen
        return stands and app.writer_rests and not app.messages.current
