"""Where story and branches stand, by layout and by the room there is.

Knows names and sizes; the rules of style are in ``screens/desk.tcss``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.options import LAYOUTS

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk

NARROW = 72
"""Below this many columns there is one pane at a time, whatever the layout."""
SHORT = 18
"""Below this many rows too."""
LEAST = (40, 12)
"""Columns and rows below which nothing useful fits."""

TOO_SMALL = f"This window is too small to write in.\nMake it at least {LEAST[0]} columns by {LEAST[1]} rows."

_MARGIN = 2


def after(name: str) -> str:
    """The layout that follows ``name``."""
    return LAYOUTS[(LAYOUTS.index(name) + 1) % len(LAYOUTS)]


def apply(desk: Desk, name: str) -> None:
    """Put the classes for layout ``name`` on the desk."""
    width, height = desk.size
    narrow = width < NARROW or height < SHORT
    _too_small(desk, width < LEAST[0] or height < LEAST[1])
    desk.set_class(desk.large, "-large")
    for choice in LAYOUTS:
        desk.set_class(choice == name and not narrow, f"-{choice}")
    desk.grid.column = name == "column" and not narrow
    desk.grid.single = narrow or desk.large


def _too_small(desk: Desk, small: bool) -> None:
    """Hide or show everything; what is hidden loses the focus, and has it again when it is back."""
    was = desk.has_class("-small")
    if small and not was:
        desk.focused_before = desk.focused
    desk.set_class(small, "-small")
    if was and not small and desk.focused_before is not None:
        desk.call_after_refresh(desk.focused_before.focus)


def centre(desk: Desk) -> None:
    """Keep the story's lines as short as reads well, in the middle of its room."""
    # As the last layout left it: call this after each. A margin too wide makes it wider than the window.
    room = min(desk.editor.outer_size.width, desk.size.width)
    spare = max(0, room - 2 * _MARGIN - desk.bench.text_width) // 2
    desk.editor.styles.padding = (1 if desk.size.height > SHORT else 0, _MARGIN + spare)
