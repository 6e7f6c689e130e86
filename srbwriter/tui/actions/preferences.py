"""The command that says what the writer's picks prefer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.preferences import Preferences
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.preferences import PicksView

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer


@command(INSTRUMENTS, "What your picks prefer")
def preferences(screen: Writer) -> None:
    """Show which temperature, preset, note or model your picks in this story prefer, and how surely."""
    screen.session.keep()
    screen.app.push_screen(PicksView(Preferences.of(screen.session).find()))
