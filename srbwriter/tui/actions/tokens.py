"""Text token by token, and words coloured by their tokens."""

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
    NONE: "Words have one colour again.",
    "probability": "Coloured by how likely each token was; what is plain was likely.",
    "surprisal": "Coloured by surprise: only what the model did not expect.",
    AUTHOR: "Coloured by who wrote it.",
}


@command(INSTRUMENTS, "Token by token", "full_stop", anywhere="f6", hint="tokens")
@writes
def tokens(screen: WriteScreen) -> None:
    """Go through a branch or the story token by token: see what else was likely, fork there, ban a word."""
    if screen.editor.has_focus:
        screen.app.push_screen(TokenView(screen, None, screen.editor.place))
        return
    here = screen.branch_here()
    if here is not None:
        pane, branch = here
        char = len(branch.text) if pane.following else pane.first_in_view + 1
        screen.app.push_screen(TokenView(screen, pane.index, pane.take or char))


@command(INSTRUMENTS, "Colour words", "number_sign")
def colour_tokens(screen: WriteScreen) -> None:
    """Colour words by how likely their tokens were, how surprising, or by who wrote them; again for none."""
    now = screen.app.preferences[options.COLOUR_TOKENS]
    mode = MODES[(MODES.index(now) + 1) % len(MODES)]
    screen.app.preferences.put(options.COLOUR_TOKENS, mode)
    screen.colour()
    screen.notify(_WORDS[mode])
