"""Commands that move the taking cursor, which says how much of a branch a pick takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.prose import Unit
from srbwriter.tui.verbs import verb

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk


def _move(desk: Desk, unit: Unit, direction: int) -> None:
    if desk.grid.pane is not None:
        desk.grid.pane.move_take(unit, direction)


@verb
def take_word(desk: Desk) -> None:
    _move(desk, "word", 1)


@verb
def untake_word(desk: Desk) -> None:
    _move(desk, "word", -1)


@verb
def take_sentence(desk: Desk) -> None:
    _move(desk, "sentence", 1)


@verb
def untake_sentence(desk: Desk) -> None:
    _move(desk, "sentence", -1)


@verb
def take_paragraph(desk: Desk) -> None:
    _move(desk, "paragraph", 1)


@verb
def untake_paragraph(desk: Desk) -> None:
    _move(desk, "paragraph", -1)
