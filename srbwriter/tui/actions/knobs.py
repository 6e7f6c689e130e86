"""Commands for sampling settings and for the text that the model gets besides the story."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.knobs import Knobs
from srbwriter.tui.dialogs.trouble import AGAIN, ModelTrouble
from srbwriter.tui.knobs import Setup
from srbwriter.tui.story.reading import ContextView
from srbwriter.tui.story.side_panel import LORE, MEMORY, NOTE, SidePanel

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer


KNOBS = "The model"


@command(KNOBS, "Settings for writing", anywhere="f2")
def knobs(screen: Writer) -> None:
    """Change how new branches are written: their number, length, temperature, banned phrases and more."""
    session = screen.session

    def changed(setup: Setup) -> None:
        session.sampling, session.stop, session.variety = setup.sampling, setup.stop, setup.variety
        session.n = setup.n

    def closed(_: None) -> None:
        screen.guarded(screen.app.knobs.keep)

    now = Setup(session.sampling, session.stop, session.variety, session.n)
    sheet = Knobs("Settings for new branches", now, changed, session.capabilities, session.usual)
    screen.app.push_screen(sheet, closed)


@command(KNOBS, "Memory", asks=True, writes=True)
def memory(screen: Writer) -> None:
    """Edit the text that the model reads before the story."""
    screen.app.push_screen(SidePanel(screen.session, MEMORY))


@command(KNOBS, "Author's note", asks=True, writes=True)
def author_note(screen: Writer) -> None:
    """Edit the text that the model reads near the end of the story."""
    screen.app.push_screen(SidePanel(screen.session, NOTE))


@command(KNOBS, "Lorebook", writes=True)
def lore(screen: Writer) -> None:
    """Edit the entries that the model reads when one of their keys occurs in the story."""
    screen.app.push_screen(SidePanel(screen.session, LORE))


@command(KNOBS, "What the model sees", anywhere="f8")
def context(screen: Writer) -> None:
    """Show the context by source, in tokens; edit the request to an instruction model."""
    screen.session.keep()
    screen.app.push_screen(ContextView(screen.session))


@command(KNOBS, "Change the model")
def model(screen: Writer) -> None:
    """Choose a model, fetch a recommended one, or retry one that failed to load; the story stays open."""
    from srbwriter.tui.dialogs.choices import choose_model

    error = screen.session.engine_error
    if error is not None and screen.session.engine_state == "FAILED":
        again = screen.session.load_again
        screen.ask(ModelTrouble(error), lambda chosen: again() if chosen == AGAIN else choose_model(screen))
    else:
        choose_model(screen)
