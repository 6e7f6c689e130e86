"""Where story and branches stand, by layout and by the room there is.

Knows names and sizes; the rules of style are in ``write_screen.tcss``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.options import AUTO, LAYOUTS, SPLIT

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen

NARROW = 72
"""Below this many columns there is one pane at a time, whatever the layout."""
SHORT = 18
"""Below this many rows too."""
WIDE = 160
"""From this many columns on there is room for lines of a readable length beside the branches."""
LEAST = (40, 12)
"""Columns and rows below which nothing useful fits."""

TOO_SMALL = f"This window is too small to write in.\nMake it at least {LEAST[0]} columns by {LEAST[1]} rows."

_MARGIN = 2


def chosen(name: str, width: int) -> str:
    """The layout that ``name`` stands for in a window of so many columns."""
    return name if name != AUTO else "right" if width >= WIDE else "below"


def after(name: str, width: int) -> str:
    """The layout that follows ``name``."""
    return LAYOUTS[(LAYOUTS.index(chosen(name, width)) + 1) % len(LAYOUTS)]


def apply(screen: WriteScreen, name: str) -> None:
    """Put the classes for layout ``name`` on the write screen, and share the window out."""
    width, height = screen.size
    narrow = width < NARROW or height < SHORT
    name = chosen(name, width)
    screen.set_class(width < LEAST[0] or height < LEAST[1], "-small")
    screen.set_class(screen.large, "-large")
    screen.set_class(screen.quiet, "-quiet")
    for choice in LAYOUTS:
        screen.set_class(choice == name and not narrow, f"-{choice}")
    screen.grid.column = name == "column" and not narrow
    screen.grid.single = narrow or screen.large
    share, beside = screen.app.preferences[SPLIT], name != "below" and not narrow
    for part, percent in ((screen.editor, share), (screen.right, 100 - share)):
        part.styles.width, part.styles.height = ("1fr", f"{percent}fr")[:: -1 if beside else 1]


def centre(screen: WriteScreen) -> None:
    """Keep the story's lines as short as reads well, in the middle of its room."""
    # As the last layout left it: call this after each. A margin too wide makes it wider than the window.
    room = min(screen.editor.outer_size.width, screen.size.width)
    spare = max(0, room - 2 * _MARGIN - screen.app.text_width) // 2
    screen.editor.styles.padding = (1 if screen.size.height > SHORT else 0, _MARGIN + spare)
