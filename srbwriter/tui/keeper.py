"""Keeps what is typed on a screen above the desk while it is open. Knows a draft and a screen."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from textual.screen import Screen
from textual.timer import Timer

from srbwriter.story import StoryError
from srbwriter.tui.autosave import TYPING_SECONDS, Autosave

if TYPE_CHECKING:
    from srbwriter.session.drafts import Draft

log = logging.getLogger(__name__)


class Keeper:
    """Puts the words of ``screen`` on the disk a moment after the last key, if there is a draft for them."""

    def __init__(self, screen: Screen[Any], draft: Draft | None) -> None:
        self._screen, self._draft = screen, draft
        self._autosave = Autosave(draft.keep) if draft is not None else None
        self._timer: Timer | None = None
        self._words = ""

    def typed(self, words: str) -> None:
        """``words`` are on the screen now."""
        if self._autosave is None:
            return
        self._words = words
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._screen.set_timer(TYPING_SECONDS, self._pause)

    def _pause(self) -> None:
        self._timer = None
        if self._autosave is not None:
            self._autosave.later(self._words)

    def end(self, drop: bool) -> None:
        """The screen is closed by the writer; ``drop``: nobody wants the words any more."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if self._autosave is not None:
            self._autosave.settle()
        if drop and self._draft is not None:
            self._draft.drop()

    def interrupted(self) -> None:
        """The program ends: the last words are kept, unless the screen was closed before."""
        if self._timer is None or self._autosave is None:
            return
        self._timer = None
        try:
            self._autosave.now(self._words)
        except StoryError as error:
            log.warning("words on a sheet could not be kept: %s", error)
