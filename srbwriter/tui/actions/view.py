"""Commands that change what is looked at: the focus, the layout, the place in a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui import options
from srbwriter.tui.actions import verb

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


@verb
def switch(screen: WriteScreen) -> None:
    screen.be_quiet(False)
    if screen.editor.has_focus and screen.grid.pane is not None:
        screen.grid.go(screen.grid.current)
    else:
        screen.go_to_story()


@verb
def left(screen: WriteScreen) -> None:
    screen.grid.step(-1, 0)


@verb
def right(screen: WriteScreen) -> None:
    screen.grid.step(1, 0)


@verb
def up(screen: WriteScreen) -> None:
    screen.grid.step(0, -1)


@verb
def down(screen: WriteScreen) -> None:
    screen.grid.step(0, 1)


@verb
def read_on(screen: WriteScreen) -> None:
    if screen.grid.pane is not None:
        screen.grid.pane.page(1)


@verb
def read_back(screen: WriteScreen) -> None:
    if screen.grid.pane is not None:
        screen.grid.pane.page(-1)


@verb
def follow(screen: WriteScreen) -> None:
    if screen.grid.pane is not None:
        screen.grid.pane.follow()


@verb
def from_start(screen: WriteScreen) -> None:
    if screen.grid.pane is not None:
        screen.grid.pane.rewind_view()


@verb
def layout(screen: WriteScreen) -> None:
    screen.next_layout()


@verb
def provenance(screen: WriteScreen) -> None:
    on = not screen.app.preferences[options.PROVENANCE]
    screen.app.preferences.put(options.PROVENANCE, on)
    screen.session.keep()  # what was typed is the writer's in the story too
    screen.show_authors()
    if on:
        screen.notify("Slanted: the model's. Slanted and bold: edited. Pale: imported. Plain: yours.")


@verb
def quiet(screen: WriteScreen) -> None:
    screen.be_quiet(not screen.quiet)
    if screen.quiet:
        screen.notify("esc shows everything again.")


@verb
def more_story(screen: WriteScreen) -> None:
    _share(screen, 5)


@verb
def less_story(screen: WriteScreen) -> None:
    _share(screen, -5)


def _share(screen: WriteScreen, percent: int) -> None:
    share = screen.app.preferences[options.SPLIT] + percent
    least, most = options.SPLIT.minimum or 0, options.SPLIT.maximum or 100
    if least <= share <= most:
        screen.app.preferences.put(options.SPLIT, share)
        screen.apply_layout()
    else:
        end = "most" if percent > 0 else "least"
        screen.notify(f"The story has {share - percent} % of the window; that is the {end}.")


@verb
def single(screen: WriteScreen) -> None:
    screen.large = not screen.large
    screen.apply_layout()
    screen.grid.go(screen.grid.current)
