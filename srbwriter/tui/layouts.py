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


def after(name: str) -> str:
    """The layout that follows ``name``."""
    return LAYOUTS[(LAYOUTS.index(name) + 1) % len(LAYOUTS)]


def apply(desk: Desk, name: str) -> None:
    """Put the classes for layout ``name`` on the desk."""
    narrow = desk.size.width < NARROW
    for choice in LAYOUTS:
        desk.set_class(choice == name and not narrow, f"-{choice}")
    desk.grid.column = name == "column" and not narrow
