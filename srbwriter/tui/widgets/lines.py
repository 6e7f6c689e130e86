"""The status line, which only draws what it is given, and progress bars."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

_BAR = 16
_GAP = "  ·  "


def bar(share: float, width: int = _BAR) -> str:
    """Return a progress bar made of characters that every terminal has."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "░" * (width - full)


class StatusLine(Widget):
    """The status line. ``mode`` says where keys go.

    If the line is too short, ``left`` parts are dropped first, then ``right`` parts, from the last one on.
    The first part of each side stays; the first left one is cut if necessary. With the class ``-trouble`` the
    first part on the right is shown as an error.
    """

    DEFAULT_CSS = "StatusLine { height: 1; width: 1fr; background: $panel; color: $text-muted; }"

    mode: reactive[str] = reactive("")
    left: reactive[tuple[str, ...]] = reactive(())
    right: reactive[tuple[str, ...]] = reactive(())

    def render(self) -> Content:
        badge = f" {self.mode} " if self.mode else ""
        saved, trouble = (self.right or ("",))[0], self.has_class("-trouble")
        line = self.line(self.size.width - cell_len(badge))
        before, found, after = line.rpartition(saved) if saved else (line, "", "")
        return Content.assemble(
            (badge, "bold reverse $primary"), before,
            (found, "bold $error" if trouble else ""), after,
        )  # fmt: skip

    def line(self, width: int) -> str:
        """Return the parts of both sides in so many cells."""
        left, right = list(self.left), list(self.right)
        while True:
            one, other = _GAP.join(left), _GAP.join(right)
            room = width - cell_len(one) - cell_len(other) - 3
            if room >= 0:
                return f" {one}{' ' * (room + 1)}{other} "
            if len(left) <= 1 and len(right) <= 1:
                kept = max(0, cell_len(one) + room - 1)
                return f" {set_cell_size(one, kept)}… {other} "
            (left if len(left) > 1 else right).pop()
