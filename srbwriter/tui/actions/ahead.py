"""The command that chooses which branches are prefetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.config import keys
from srbwriter.session.ahead import MODES, LookAhead, budget_of
from srbwriter.tui.commands import INSTRUMENTS, command

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen

_WORDS = {
    "off": "Nothing is written ahead.",
    "focused": "The continuation of the focused branch is written while you read; » means ready.",
    "all": "The continuations of all branches are written while you read; » means ready.",
}


@command(INSTRUMENTS, "Write ahead of picks", anywhere="f5")
def look_ahead(screen: WriteScreen) -> None:
    """Write continuations while you read: for no branch, the focused one, or all of them."""
    preferences, looking = screen.app.preferences, LookAhead.of(screen.session)
    mode = MODES[(MODES.index(preferences[keys.LOOK_AHEAD]) + 1) % len(MODES)]
    note = preferences.put(keys.LOOK_AHEAD, mode)
    looking.budget = budget_of(preferences)
    why_not = looking.why_not
    words = f"Not now: {why_not}." if why_not else _WORDS[mode]
    screen.notify(" ".join(part for part in (words, note) if part))
