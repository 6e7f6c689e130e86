"""Commands for sampling settings and for the text that the model gets besides the story."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.model import choose_model
from srbwriter.tui.story.reading import ContextView
from srbwriter.tui.story.side_panel import LORE, MEMORY, NOTE, SidePanel

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


KNOBS = "The model"


@command(KNOBS, "Memory", asks=True, writes=True)
def memory(screen: WriteScreen) -> None:
    """Edit the text that the model reads before the story."""
    screen.app.push_screen(SidePanel(screen.session, MEMORY))


@command(KNOBS, "Author's note", asks=True, writes=True)
def author_note(screen: WriteScreen) -> None:
    """Edit the text that the model reads near the end of the story."""
    screen.app.push_screen(SidePanel(screen.session, NOTE))


@command(KNOBS, "Lorebook", writes=True)
def lore(screen: WriteScreen) -> None:
    """Edit the entries that the model reads when one of their keys occurs in the story."""
    screen.app.push_screen(SidePanel(screen.session, LORE))


@command(KNOBS, "What the model sees", anywhere="f8")
def context(screen: WriteScreen) -> None:
    """Show the context by source, in tokens; edit the request to an instruction model."""
    screen.session.keep()
    screen.app.push_screen(ContextView(screen.session))


@command(KNOBS, "Change the model")
def model(screen: WriteScreen) -> None:
    """Choose a model, fetch a recommended one, or retry one that failed to load; the story stays open."""
    choose_model(screen)
