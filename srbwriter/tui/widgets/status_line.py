"""The lines at the foot: where keys go, the model, the context, the speed, the words, whether they are safe.

A message stands in place of what the model does until it has been read. Draws what it is given; asks nobody.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from srbwriter.tui.wrap import Wrapper

_BAR = 16
_GAP = "  ·  "
_MOST_ROWS = 6


def bar(share: float, width: int = _BAR) -> str:
    """A progress bar in characters that every terminal has."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "░" * (width - full)


class StatusLine(Widget):
    """``mode`` says where keys go. ``left`` parts give way to ``right`` parts when the room is short, last
    ones first; all of them but the first on the right give way to a ``message``, which may take several rows.
    """

    COMPONENT_CLASSES = {"status--mode", "status--message", "status--error"}
    DEFAULT_CSS = """
    StatusLine {
        height: 1; width: 1fr; background: $panel; color: $text-muted;
        .status--mode { background: $primary; color: $background; text-style: bold; }
        .status--message { color: $foreground; }
        .status--error { color: $text-error; text-style: bold; }
    }
    """

    mode: reactive[str] = reactive("")
    left: reactive[tuple[str, ...]] = reactive(())
    right: reactive[tuple[str, ...]] = reactive(())
    message: reactive[str] = reactive("")
    error: reactive[bool] = reactive(False)

    @property
    def line(self) -> str:
        """The text of all rows."""
        return "\n".join(self._rows())

    @property
    def _badge(self) -> str:
        return f" {self.mode} " if self.mode else ""

    def _rows(self) -> list[str]:
        return self._message_rows() if self.message else [f"{self._badge}{self._usual()}"]

    def _usual(self) -> str:
        width = self.size.width - cell_len(self._badge)
        left, right = list(self.left), list(self.right)
        while True:
            one, other = _GAP.join(left), _GAP.join(right)
            room = width - cell_len(one) - cell_len(other) - 3
            if room >= 0 or len(left) + len(right) <= 1:
                return f" {one}{' ' * max(1, room + 1)}{other} "
            (left if len(left) > 1 else right).pop()

    def _message_rows(self) -> list[str]:
        """The message behind the badge, with whether the words are safe where the last row ends."""
        indent, kept = cell_len(self._badge) + 1, self.right[0] if self.right else ""
        wrapped = Wrapper(max(10, self.size.width - indent - 1))
        wrapped.reset(self.message)
        rows = [wrapped.shown(row).rstrip() for row in range(len(wrapped.lines))]
        if not kept:
            pass
        elif indent + cell_len(rows[-1]) + cell_len(kept) + 3 <= self.size.width:
            room = self.size.width - indent - cell_len(rows[-1]) - cell_len(kept) - 1
            rows[-1] = f"{rows[-1]}{' ' * room}{kept}"
        elif len(rows) > 1 or self.mode:
            rows.append(f"{' ' * max(0, self.size.width - indent - cell_len(kept) - 1)}{kept}")
        first, *others = rows[:_MOST_ROWS]
        return [f"{self._badge} {first}", *(f"{' ' * indent}{row}" for row in others)]

    def watch_message(self) -> None:
        self.set_class(bool(self.message), "-speaking")
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        rows = len(self._rows()) if self.size.width else 1
        if self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows

    def render_line(self, y: int) -> Strip:
        rows, badge = self._rows(), self._badge
        if y >= len(rows):
            return Strip.blank(self.size.width, self.rich_style)
        style = self.rich_style
        if self.message:
            style = self.get_component_rich_style("status--error" if self.error else "status--message")
        segments = [Segment(rows[y], style)]
        if y == 0 and badge:
            mode = self.get_component_rich_style("status--mode")
            segments = [Segment(badge, mode), Segment(rows[0].removeprefix(badge), style)]
        return Strip(segments).adjust_cell_length(self.size.width, style)
