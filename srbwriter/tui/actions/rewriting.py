"""Commands that write in the middle of the story."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.rewriting import Passage, passage_at, place_at
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.rewriting import RewriteView

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


@command(INSTRUMENTS, "Another sentence here", writes=True)
def rewrite(screen: WriteScreen) -> None:
    """Write other words for the selected passage, or the sentence at the cursor; pick one to replace it."""
    view = screen.editor.view
    _show(screen, passage_at(screen.editor.text, *sorted((view.start, view.end))))


@command(INSTRUMENTS, "Write here", writes=True)
def write_here(screen: WriteScreen) -> None:
    """Write text for the place of the cursor; pick one to put it there. What follows stays."""
    _show(screen, place_at(screen.editor.text, screen.editor.cursor))


def _show(screen: WriteScreen, passage: Passage) -> None:
    screen.session.may_write()
    screen.app.push_screen(RewriteView(screen, passage))
