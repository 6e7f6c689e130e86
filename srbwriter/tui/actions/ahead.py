"""Writing ahead of picks: how much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.config import keys
from srbwriter.session.ahead import MODES, budget_of
from srbwriter.tui.commands import INSTRUMENTS, command

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen

_WORDS = {
    "off": "Nothing is written ahead.",
    "focused": "What follows the branch in focus is written while you read; » is ready.",
    "all": "What follows each branch is written while you read; » is ready.",
}


@command(INSTRUMENTS, "Write ahead of picks", "comma", anywhere="f5")
def look_ahead(screen: WriteScreen) -> None:
    """Write what follows a pick while you read: for no branch, for the one in focus, for all."""
    preferences, looking = screen.app.preferences, screen.session.look_ahead
    mode = MODES[(MODES.index(preferences[keys.LOOK_AHEAD]) + 1) % len(MODES)]
    note = preferences.put(keys.LOOK_AHEAD, mode)
    looking.budget = budget_of(preferences)
    why_not = looking.why_not
    words = f"Not now: {why_not}." if why_not else _WORDS[mode]
    screen.notify(" ".join(part for part in (words, note) if part))
