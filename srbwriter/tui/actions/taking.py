"""Commands that move the taking cursor, which says how much of a branch a pick takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.prose import Unit
from srbwriter.tui.actions import verb

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


def _move(screen: WriteScreen, unit: Unit, direction: int) -> None:
    if screen.grid.pane is not None:
        screen.grid.pane.move_take(unit, direction)


@verb
def take_word(screen: WriteScreen) -> None:
    _move(screen, "word", 1)


@verb
def untake_word(screen: WriteScreen) -> None:
    _move(screen, "word", -1)


@verb
def take_sentence(screen: WriteScreen) -> None:
    _move(screen, "sentence", 1)


@verb
def untake_sentence(screen: WriteScreen) -> None:
    _move(screen, "sentence", -1)


@verb
def take_paragraph(screen: WriteScreen) -> None:
    _move(screen, "paragraph", 1)


@verb
def untake_paragraph(screen: WriteScreen) -> None:
    _move(screen, "paragraph", -1)
