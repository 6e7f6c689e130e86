"""The command that chooses which branches are prefetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.config import keys
from srbwriter.session.ahead import MODES, LookAhead, budget_of
from srbwriter.tui.commands import INSTRUMENTS, command

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_WORDS = {
    "off": "Next branches are written only after a pick.",
    "focused": "While you read, the branches after the chosen one are written; its head says so.",
    "all": "While you read, the branches after each one are written; heads say which are ready.",
}


@command(INSTRUMENTS, "Next branches while you read", anywhere="f5")
def look_ahead(screen: WriteScreen) -> None:
    """Write the next branches before you pick: after the chosen branch, after all of them, or not at all."""
    preferences, looking = screen.app.preferences, LookAhead.of(screen.session)
    mode = MODES[(MODES.index(preferences[keys.LOOK_AHEAD]) + 1) % len(MODES)]
    note = preferences.put(keys.LOOK_AHEAD, mode)
    looking.budget = budget_of(preferences)
    why_not = looking.why_not
    words = f"Not now: {why_not}." if why_not else _WORDS[mode]
    screen.app.clear_notifications()  # pressed thrice, it says what holds now
    screen.notify(" ".join(part for part in (words, note) if part))
