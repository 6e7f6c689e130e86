"""Commands that change the story."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.verbs import verb

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk


@verb
def undo(desk: Desk) -> None:
    desk.commit()
    desk.session.undo()
    desk.show_story()


@verb
def redo(desk: Desk) -> None:
    desk.commit()
    desk.session.redo()
    desk.show_story()
