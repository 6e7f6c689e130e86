"""Commands that show text token by token and colour words by their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui import options
from srbwriter.tui.actions.branches import branch_here
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.dialogs.tokens import TokenView
from srbwriter.tui.widgets.tints import AUTHOR, NONE, SURPRISAL

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


_COLOURS = (
    Choice(NONE, "no colours", "all words look alike"),
    Choice(AUTHOR, "who wrote what", "the model, edited by you, imported, yours"),
    Choice(SURPRISAL, "unlikely words", "those that the model gave less than 1.6 %"),
)


@command(INSTRUMENTS, "Token by token", anywhere="f6", writes=True)
def tokens(screen: WriteScreen) -> None:
    """Step through a branch or the story by token: see alternatives, start a branch there, ban a word."""
    if screen.editor.has_focus:
        screen.app.push_screen(TokenView(screen, None, screen.editor.cursor))
        return
    if (here := branch_here(screen)) is not None:
        pane, branch = here
        char = len(branch.text) if pane.follow else pane.first_in_view + 1
        screen.app.push_screen(TokenView(screen, pane.index, pane.take or char))


@command(INSTRUMENTS, "Colour words")
def colour_tokens(screen: WriteScreen) -> None:
    """Colour words by who wrote them, or those that the model found unlikely."""

    app = screen.app

    def chosen(mode: str) -> None:
        note = app.preferences.put(options.COLOUR_TOKENS, mode)
        screen.session.keep()  # typing must be in the story before its authors are shown
        app.apply_preferences()
        if note:
            screen.notify(note)

    now = app.preferences[options.COLOUR_TOKENS]
    screen.ask(Picker("Colours of words", _COLOURS, at=now), chosen)
