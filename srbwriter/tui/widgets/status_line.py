"""One line at the foot: the model, the context, the speed, the words, and whether they are safe.

Draws what it is given; asks nobody.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

_BAR = 16
_GAP = "  ·  "


def bar(share: float, width: int = _BAR) -> str:
    """A progress bar in characters that every terminal has."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "░" * (width - full)


class StatusLine(Widget):
    """``left`` parts give way to ``right`` parts when the room is short, last ones first."""

    DEFAULT_CSS = """
    StatusLine { height: 1; width: 1fr; background: $panel; color: $text-muted; }
    """

    left: reactive[tuple[str, ...]] = reactive(())
    right: reactive[tuple[str, ...]] = reactive(())

    @property
    def line(self) -> str:
        """The line as it is shown."""
        width = self.size.width
        left, right = list(self.left), list(self.right)
        while True:
            one, other = _GAP.join(left), _GAP.join(right)
            room = width - cell_len(one) - cell_len(other) - 3
            if room >= 0 or len(left) + len(right) <= 1:
                return f" {one}{' ' * max(1, room + 1)}{other} "
            (left if len(left) > 1 else right).pop()

    def render_line(self, y: int) -> Strip:
        return Strip([Segment(self.line, self.rich_style)]).adjust_cell_length(
            self.size.width, self.rich_style
        )
