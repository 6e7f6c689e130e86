"""Commands that change how branches are written, and what the model is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.session.sampling import Sweep
from srbwriter.story import ROOT
from srbwriter.tui.actions import verb
from srbwriter.tui.knobs import Setup
from srbwriter.tui.screens.context import ContextView
from srbwriter.tui.screens.knobs import Knobs
from srbwriter.tui.screens.sheet import Sheet
from srbwriter.tui.welcome import writes

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


@verb
def knobs(screen: WriteScreen) -> None:
    session = screen.session

    def changed(setup: Setup) -> None:
        session.sampling, session.stop = setup.sampling, setup.stop

    def spread(ladder: Sweep | None) -> None:
        session.sweep = ladder

    def closed(_: None) -> None:
        screen.guarded(screen.app.knobs.keep)

    now = Setup(session.sampling, session.stop)
    screen.app.push_screen(Knobs("Knobs for new branches", now, changed, spread, session.sweep), closed)


@verb
def branch_knobs(screen: WriteScreen) -> None:
    pane = screen.grid.pane
    if pane is None or pane.branch is None:
        screen.notify("There is no branch here yet.")
        return
    index, branch = pane.index, pane.branch

    def changed(setup: Setup) -> None:
        screen.guarded(lambda: screen.session.set_sampling(index, setup.sampling))

    screen.app.push_screen(
        Knobs(f"Knobs of branch {index + 1}", Setup(branch.sampling, branch.stop_rule), changed)
    )


@verb
@writes
def memory(screen: WriteScreen) -> None:
    _tell(screen, "memory", "Memory", "The model is told this before the story.")


@verb
@writes
def author_note(screen: WriteScreen) -> None:
    _tell(screen, "author_note", "Author's note", "The model is told this near the end of the story.")


def _tell(screen: WriteScreen, setting: str, title: str, about: str) -> None:
    """Show the sheet of a text that the model is told beside the story."""
    session, story = screen.session, screen.session.story

    def take(text: str) -> bool:
        settings = replace(story.own_settings(ROOT), **{setting: text})
        return screen.guarded(lambda: session.together(lambda: story.put_settings(ROOT, settings)))

    now = getattr(story.settings(ROOT), setting) or ""
    screen.app.push_screen(Sheet(title, now, about, take, session.draft(setting)))


@verb
@writes
def lore(screen: WriteScreen) -> None:
    from srbwriter.tui.screens.lorebook import Lorebook

    screen.app.push_screen(Lorebook(screen.session))


@verb
def context(screen: WriteScreen) -> None:
    screen.session.keep()
    screen.app.push_screen(ContextView(screen.session.context()))


@verb
def model(screen: WriteScreen) -> None:
    from srbwriter.tui.screens.models import choose_model

    choose_model(screen)
