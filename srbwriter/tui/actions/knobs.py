"""Commands for sampling settings and for the text that the model gets besides the story."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.session.sampling import Sweep
from srbwriter.story import ROOT
from srbwriter.story.context.preamble import DEFAULT_NOTE_DEPTH
from srbwriter.tui.commands import command
from srbwriter.tui.knobs import Setup
from srbwriter.tui.screens.knobs import Knobs
from srbwriter.tui.screens.lorebook import Lorebook
from srbwriter.tui.screens.reading import ContextView
from srbwriter.tui.screens.sheet import NoteSheet, Sheet
from srbwriter.tui.screens.trouble import AGAIN, CHOOSE, ModelTrouble
from srbwriter.tui.welcome import writes

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


KNOBS = "Knobs"


@command(KNOBS, "Knobs", letters="K", anywhere="f2")
def knobs(screen: WriteScreen) -> None:
    """Change how new branches are sampled: samplers, stop rules, presets, a sweep."""
    session = screen.session

    def changed(setup: Setup) -> None:
        session.sampling, session.stop, session.variety = setup.sampling, setup.stop, setup.variety

    def spread(sweep: Sweep | None) -> None:
        session.sweep = sweep

    def closed(_: None) -> None:
        screen.guarded(screen.app.knobs.keep)

    now = Setup(session.sampling, session.stop, session.variety)
    sheet = Knobs("Knobs for new branches", now, changed, spread, session.sweep, session.capabilities)
    screen.app.push_screen(sheet, closed)


@command(KNOBS, "Memory", letters="M")
@writes
def memory(screen: WriteScreen) -> None:
    """Edit the text that the model reads before the story."""
    now = screen.session.story.settings(ROOT).memory or ""
    about = "The model reads this before the story."
    draft = screen.session.draft("memory")
    screen.app.push_screen(Sheet("Memory", now, about, lambda text: _put(screen, memory=text), draft))


def _put(screen: WriteScreen, **said: object) -> bool:
    """Change settings of the whole story; return False if the story refuses them."""
    session, story = screen.session, screen.session.story
    settings = replace(story.own_settings(ROOT), **said)  # type: ignore[arg-type]
    return screen.guarded(lambda: session.together(lambda: story.put_settings(ROOT, settings)))


@command(KNOBS, "Author's note", letters="N")
@writes
def author_note(screen: WriteScreen) -> None:
    """Edit the text that the model reads near the end of the story."""
    now = screen.session.story.settings(ROOT)

    def take(text: str, depth: int | None) -> bool:
        return _put(screen, author_note=text, author_note_depth=depth)

    draft = screen.session.draft("author_note")
    sheet = NoteSheet(now.author_note or "", now.author_note_depth, DEFAULT_NOTE_DEPTH, take, draft)
    screen.app.push_screen(sheet)


@command(KNOBS, "Lorebook", letters="O")
@writes
def lore(screen: WriteScreen) -> None:
    """Edit the entries that the model reads when one of their keys occurs in the story."""
    screen.app.push_screen(Lorebook(screen.session))


@command(KNOBS, "What the model sees", letters="X", anywhere="f8")
def context(screen: WriteScreen) -> None:
    """Show the context by source, in tokens; edit the request to an instruction model."""
    screen.session.keep()
    screen.app.push_screen(ContextView(screen.session))


@command(KNOBS, "Change the model", letters="m")
def model(screen: WriteScreen) -> None:
    """Choose a model, fetch a recommended one, or retry one that failed to load; the story stays open."""
    from srbwriter.tui.screens.choices import choose_model

    def answered(chosen: str | None) -> None:
        if chosen == CHOOSE:
            screen.guarded(lambda: choose_model(screen))
        elif chosen == AGAIN:
            screen.guarded(screen.session.load_again)

    error = screen.session.engine_error
    if error is not None and screen.session.engine_state == "FAILED":
        screen.app.push_screen(ModelTrouble(error), answered)
    else:
        choose_model(screen)
