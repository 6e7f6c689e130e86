"""The command that guards branches against loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.loops import Loops
from srbwriter.tui.commands import INSTRUMENTS, command

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer


@command(INSTRUMENTS, "Loop guard")
def loop_guard(screen: Writer) -> None:
    """Rewind branches that begin to repeat themselves, so that they continue otherwise; or only mark them."""
    loops = Loops.of(screen.session)
    on = not loops.guards
    if screen.guarded(lambda: (loops.guard(on), screen.app.knobs.keep())):
        screen.notify(
            "Branches that begin to repeat themselves write something else."
            if on
            else "Branches that repeat themselves are only marked."
        )
