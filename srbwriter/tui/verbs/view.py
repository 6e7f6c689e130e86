"""Commands that change what is looked at: the focus, the layout, the place in a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.verbs import verb

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk


@verb
def switch(desk: Desk) -> None:
    if desk.editor.has_focus and desk.grid.pane is not None:
        desk.grid.go(desk.grid.current)
    else:
        desk.editor.focus()


@verb
def left(desk: Desk) -> None:
    desk.grid.step(-1, 0)


@verb
def right(desk: Desk) -> None:
    desk.grid.step(1, 0)


@verb
def up(desk: Desk) -> None:
    desk.grid.step(0, -1)


@verb
def down(desk: Desk) -> None:
    desk.grid.step(0, 1)


@verb
def read_on(desk: Desk) -> None:
    if desk.grid.pane is not None:
        desk.grid.pane.page(1)


@verb
def read_back(desk: Desk) -> None:
    if desk.grid.pane is not None:
        desk.grid.pane.page(-1)


@verb
def follow(desk: Desk) -> None:
    if desk.grid.pane is not None:
        desk.grid.pane.follow()


@verb
def from_start(desk: Desk) -> None:
    if desk.grid.pane is not None:
        desk.grid.pane.rewind_view()


@verb
def layout(desk: Desk) -> None:
    desk.next_layout()


@verb
def single(desk: Desk) -> None:
    desk.large = not desk.large
    desk.apply_layout()
    desk.grid.go(desk.grid.current)
