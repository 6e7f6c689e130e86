"""The arrangement of story and branches, by layout and window size. Style rules are in ``screen.tcss``."""

from __future__ import annotations

from dataclasses import dataclass

from textual.geometry import Size

from srbwriter.tui.options import AUTO, LAYOUTS

NARROW = 72
"""Below this many columns every layout shows one pane at a time."""
SHORT = 18
"""Below this many rows too."""
WIDE = 140
"""From this many columns on there is room for lines of a readable length beside the branches."""
LEAST = (40, 12)
"""Columns and rows below which nothing useful fits."""

TOO_SMALL = f"This window is too small to write in.\nMake it at least {LEAST[0]} columns by {LEAST[1]} rows."


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What the write screen shows, and where."""

    layout: str
    """The writer's choice: one of LAYOUTS, or AUTO."""
    large: bool = False
    """Show one branch only."""
    quiet: bool = False
    """Show the story only, with the cursor's line in the middle."""
    figures: bool = False
    """Show figures of the engine."""
    panel_columns: int = 0
    """Free columns on the right, for the side panel."""

    def name(self, width: int) -> str:
        """Return the layout that is meant in a window of ``width`` columns."""
        return self.layout if self.layout != AUTO else "right" if width >= WIDE else "below"

    def next_layout(self, width: int) -> str:
        """Return the layout after the one that is meant in a window of ``width`` columns."""
        return LAYOUTS[(LAYOUTS.index(self.name(width)) + 1) % len(LAYOUTS)]

    def classes(self, window: Size) -> dict[str, bool]:
        """Return the classes of the write screen: its layout, unless only one pane has room, and more."""
        width, height = window.width - self.panel_columns, window.height
        narrow = width < NARROW or height < SHORT
        small = width < LEAST[0] or height < LEAST[1]
        here = self.name(window.width)  # the panel takes columns, and throws the branches nowhere
        shown = {f"-{layout}": layout == here and not narrow for layout in LAYOUTS}
        return {"-small": small, "-large": self.large, "-quiet": self.quiet} | shown

    def describe(self, window: Size) -> str:
        """Return a sentence that says where story and branches are in the window."""
        classes = self.classes(window)
        if self.quiet:
            return "The story fills the window; its live branches are hidden."
        if self.large:
            return "One live branch fills the window; the story is hidden."
        if classes["-right"] or classes["-column"]:
            return "The story is on the left, its live branches are on the right."
        return "The story is above, its live branches are below."
