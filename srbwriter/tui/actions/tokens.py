"""Commands that show text token by token and colour words by their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui import options
from srbwriter.tui.commands import command
from srbwriter.tui.screens.tokens import TokenView
from srbwriter.tui.welcome import writes
from srbwriter.tui.widgets.tints import AUTHOR, MODES, NONE

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


INSTRUMENTS = "Instruments"

_WORDS = {
    NONE: "All words have one colour.",
    "probability": "Coloured by probability: uncoloured words were likely.",
    "surprisal": "Coloured by surprise: only words that the model did not expect.",
    AUTHOR: "Coloured by author.",
}


@command(INSTRUMENTS, "Token by token", anywhere="f6")
@writes
def tokens(screen: WriteScreen) -> None:
    """Step through a branch or the story by token: see alternatives, start a branch there, ban a word."""
    if screen.editor.has_focus:
        screen.app.push_screen(TokenView(screen, None, screen.editor.place))
        return
    here = screen.branch_here()
    if here is not None:
        pane, branch = here
        char = len(branch.text) if pane.following else pane.first_in_view + 1
        screen.app.push_screen(TokenView(screen, pane.index, pane.take or char))


@command(INSTRUMENTS, "Colour words")
def colour_tokens(screen: WriteScreen) -> None:
    """Colour words by probability, by surprise, or by author; again for the next, then none."""
    now = screen.app.preferences[options.COLOUR_TOKENS]
    mode = MODES[(MODES.index(now) + 1) % len(MODES)]
    screen.app.preferences.put(options.COLOUR_TOKENS, mode)
    screen.colour()
    screen.notify(_WORDS[mode])
