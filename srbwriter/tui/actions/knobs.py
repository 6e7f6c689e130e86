"""Commands that change how branches are written, and what the model is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.session.sampling import Sweep
from srbwriter.story import ROOT
from srbwriter.story.context.preamble import DEFAULT_NOTE_DEPTH
from srbwriter.tui.actions import verb
from srbwriter.tui.knobs import Setup
from srbwriter.tui.screens.context import ContextView
from srbwriter.tui.screens.knobs import Knobs
from srbwriter.tui.screens.note import NoteSheet
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
    here = screen.branch_here()
    if here is None:
        return
    index, branch = here[0].index, here[1]

    def changed(setup: Setup) -> None:
        screen.guarded(lambda: screen.session.set_sampling(index, setup.sampling))

    screen.app.push_screen(
        Knobs(f"Knobs of branch {index + 1}", Setup(branch.sampling, branch.stop_rule), changed)
    )


@verb
@writes
def memory(screen: WriteScreen) -> None:
    now = screen.session.story.settings(ROOT).memory or ""
    about = "The model is told this before the story."
    draft = screen.session.draft("memory")
    screen.app.push_screen(Sheet("Memory", now, about, lambda text: _put(screen, memory=text), draft))


@verb
@writes
def author_note(screen: WriteScreen) -> None:
    now = screen.session.story.settings(ROOT)

    def take(text: str, depth: int | None) -> bool:
        return _put(screen, author_note=text, author_note_depth=depth)

    draft = screen.session.draft("author_note")
    sheet = NoteSheet(now.author_note or "", now.author_note_depth, DEFAULT_NOTE_DEPTH, take, draft)
    screen.app.push_screen(sheet)


def _put(screen: WriteScreen, **said: object) -> bool:
    """Change some of the settings of the whole story; False if that is refused."""
    session, story = screen.session, screen.session.story
    settings = replace(story.own_settings(ROOT), **said)  # type: ignore[arg-type]
    return screen.guarded(lambda: session.together(lambda: story.put_settings(ROOT, settings)))


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
