"""Commands that change how branches are written, and what the model is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.session.sampling import Sweep
from srbwriter.story import ROOT
from srbwriter.tui.knobs import Setup
from srbwriter.tui.screens.context import ContextView
from srbwriter.tui.screens.knobs import Knobs
from srbwriter.tui.screens.sheet import Sheet
from srbwriter.tui.verbs import verb
from srbwriter.tui.welcome import writes

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk


@verb
def knobs(desk: Desk) -> None:
    session = desk.session

    def changed(setup: Setup) -> None:
        session.sampling, session.stop = setup.sampling, setup.stop

    def spread(ladder: Sweep | None) -> None:
        session.sweep = ladder

    def closed(_: None) -> None:
        desk.guarded(desk.bench.knobs.keep)

    now = Setup(session.sampling, session.stop)
    desk.bench.push_screen(Knobs("Knobs for new branches", now, changed, spread, session.sweep), closed)


@verb
def branch_knobs(desk: Desk) -> None:
    pane = desk.grid.pane
    if pane is None or pane.branch is None:
        desk.say("There is no branch here yet.")
        return
    index, branch = pane.index, pane.branch

    def changed(setup: Setup) -> None:
        desk.guarded(lambda: desk.session.set_sampling(index, setup.sampling))

    desk.bench.push_screen(
        Knobs(f"Knobs of branch {index + 1}", Setup(branch.sampling, branch.stop_rule), changed)
    )


@verb
@writes
def memory(desk: Desk) -> None:
    _tell(desk, "memory", "Memory", "The model is told this before the story.")


@verb
@writes
def author_note(desk: Desk) -> None:
    _tell(desk, "author_note", "Author's note", "The model is told this near the end of the story.")


def _tell(desk: Desk, setting: str, title: str, about: str) -> None:
    """Show the sheet of a text that the model is told beside the story."""
    session, story = desk.session, desk.session.story

    def take(text: str) -> bool:
        settings = replace(story.own_settings(ROOT), **{setting: text})
        return desk.guarded(lambda: session.together(lambda: story.put_settings(ROOT, settings)))

    now = getattr(story.settings(ROOT), setting) or ""
    desk.bench.push_screen(Sheet(title, now, about, take, session.draft(setting)))


@verb
@writes
def lore(desk: Desk) -> None:
    from srbwriter.tui.screens.lorebook import Lorebook

    desk.bench.push_screen(Lorebook(desk.session))


@verb
def context(desk: Desk) -> None:
    desk.session.keep()
    desk.bench.push_screen(ContextView(desk.session.context()))


@verb
def model(desk: Desk) -> None:
    from srbwriter.tui.screens.models import choose_model

    choose_model(desk)
