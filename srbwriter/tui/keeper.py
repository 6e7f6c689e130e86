"""Keeps what is typed on a screen above the desk while it is open. Knows a draft and a screen."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.screen import Screen
from textual.timer import Timer

from srbwriter.story import StoryError
from srbwriter.tui.autosave import TYPING_SECONDS, Autosave

if TYPE_CHECKING:
    from srbwriter.session.drafts import Draft

log = logging.getLogger(__name__)


class Keeper:
    """Puts the words of ``screen`` on the disk a moment after the last key; ``words`` are there at first."""

    def __init__(self, screen: Screen[Any], draft: Draft, words: str) -> None:
        self._screen, self._draft, self._words = screen, draft, words
        self._autosave = Autosave(draft.keep)
        self._timer: Timer | None = None
        self._ended = False

    def typed(self, words: str) -> None:
        """``words`` are on the screen now."""
        if self._ended or words == self._words:  # a screen hears of its last keys when it has been closed
            return
        self._words = words
        if self._timer is None:  # counted from the oldest key
            self._timer = self._screen.set_timer(TYPING_SECONDS, self._pause)

    def _pause(self) -> None:
        self._timer = None
        self._autosave.later(self._words)

    def end(self) -> None:
        """The writer has closed the screen: its words are kept elsewhere, or nobody wants them."""
        self._ended = True
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._autosave.settle()
        _tried(self._draft.drop)

    def interrupted(self) -> None:
        """The program ends, perhaps with the screen open: the last words are kept first."""
        if self._timer is None:
            self._autosave.settle()
            return
        self._timer = None
        _tried(lambda: self._autosave.now(self._words))


def _tried(act: Callable[[], object]) -> None:
    try:
        act()
    except StoryError as error:
        log.warning("the words of a sheet could not be kept: %s", error)
