"""The command that rewrites a passage in the middle of the story."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.rewriting import passage_at
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.rewriting import RewriteView

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


@command(INSTRUMENTS, "Rewrite here", writes=True)
def rewrite(screen: WriteScreen) -> None:
    """Write variants of the selected passage, or the sentence at the cursor; pick one to replace it."""
    view = screen.editor.view
    passage = passage_at(screen.editor.text, *sorted((view.start, view.end)))
    screen.session.may_write()
    screen.app.push_screen(RewriteView(screen, passage))
