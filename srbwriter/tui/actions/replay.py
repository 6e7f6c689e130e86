"""The command that writes a branch again from its seed."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from srbwriter.session.replay import Replayed, Replays
from srbwriter.tui.actions.branches import branch_here
from srbwriter.tui.commands import INSTRUMENTS, command

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer


@command(INSTRUMENTS, "Replay this branch")
def replay(screen: Writer) -> None:
    """Write this branch again from its seed, unseen, and say whether the same text comes; nothing changes."""
    index = None
    if not screen.editor.has_focus:
        if (here := branch_here(screen)) is None:
            return
        index = here[0].index
    _when_done(screen, Replays.of(screen.session).replay(index))


def _when_done(screen: Writer, replaying: Future[Replayed]) -> None:
    if not replaying.done():
        screen.editor.set_timer(0.1, lambda: _when_done(screen, replaying))
        return
    error = replaying.exception()
    if error is not None:
        screen.notify(f"The branch could not be replayed: {error}", severity="error")
        return
    found = replaying.result()
    words = found.words[0].upper() + found.words[1:]
    kept = " The text is safe: its tokens are in the story." if found.verdict == "differs" else ""
    screen.notify(f"{words}.{kept}")
