"""The arrangement of story and branches, by layout and window size.

Style rules are in ``write_screen.tcss``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.options import AUTO, LAYOUTS, SPLIT

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer

NARROW = 72
"""Below this many columns every layout shows one pane at a time."""
SHORT = 18
"""Below this many rows too."""
WIDE = 160
"""From this many columns on there is room for lines of a readable length beside the branches."""
LEAST = (40, 12)
"""Columns and rows below which nothing useful fits."""

TOO_SMALL = f"This window is too small to write in.\nMake it at least {LEAST[0]} columns by {LEAST[1]} rows."

_MARGIN = 2


def chosen(name: str, width: int) -> str:
    """Return the layout that ``name`` means in a window of ``width`` columns."""
    return name if name != AUTO else "right" if width >= WIDE else "below"


def after(name: str, width: int) -> str:
    """Return the layout after ``name``."""
    return LAYOUTS[(LAYOUTS.index(chosen(name, width)) + 1) % len(LAYOUTS)]


def apply(screen: Writer, name: str) -> None:
    """Set the classes of layout ``name`` on the write screen, and divide the window."""
    width, height = screen.size
    width -= screen.panel_columns
    narrow = width < NARROW or height < SHORT
    name = chosen(name, width)
    small = width < LEAST[0] or height < LEAST[1]
    classes = {"-small": small, "-large": screen.large, "-quiet": screen.quiet}
    # In one call: each change of classes restyles the whole screen.
    screen.update_classes(classes | {f"-{choice}": choice == name and not narrow for choice in LAYOUTS})
    screen.grid.column = name == "column" and not narrow
    screen.grid.single = narrow or screen.large
    for panes in screen.query("#panes"):
        panes.styles.margin = (0, screen.panel_columns, 0, 0)
    share, beside = screen.app.preferences[SPLIT], name != "below" and not narrow
    for part, percent in ((screen.editor, share), (screen.right, 100 - share)):
        part.styles.width, part.styles.height = ("1fr", f"{percent}fr")[:: -1 if beside else 1]


def describe(screen: Writer) -> str:
    """Return a sentence that says where story and branches are in the window now."""
    if screen.quiet:
        return "The story fills the window; its live branches are hidden."
    if screen.large:
        return "One live branch fills the window; the story is hidden."
    if screen.has_class("-right") or screen.has_class("-column"):
        return "The story is on the left, its live branches are on the right."
    return "The story is above, its live branches are below."


def centre(screen: Writer) -> None:
    """Limit the story's line length and centre the story in its area."""
    # Uses the sizes of the last layout, so call it after each one. Too wide a margin would exceed the window.
    room = min(screen.editor.outer_size.width, screen.size.width - screen.panel_columns)
    spare = max(0, room - 2 * _MARGIN - screen.app.text_width) // 2
    screen.editor.styles.padding = (1 if screen.size.height > SHORT else 0, _MARGIN + spare)
