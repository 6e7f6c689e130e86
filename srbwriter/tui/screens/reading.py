"""Read mode: the story as a clean page, as wide as reads well, with nothing else on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from srbwriter.tui.dialog import Page
from srbwriter.tui.widgets.key_line import key_name


def typeset(text: str) -> str:
    """Paragraphs apart by one empty line, whatever stands between them in the story."""
    paragraphs = [part.strip() for part in text.replace("\r\n", "\n").split("\n")]
    return "\n\n".join(part for part in paragraphs if part)


class Reading(Page[None]):
    """Escape closes it, and so do the keys that open it.

    Args:
        text: what is read.
        width: the widest line, in cells.
        keys: the keys that open it.
    """

    DEFAULT_CSS = """
    Reading { align: center top; background: $background; }
    Reading VerticalScroll { width: 100%; height: 1fr; align: center top; scrollbar-size-vertical: 0; }
    Reading Static { height: auto; padding: 2 2 4 2; color: $foreground; }
    Reading #reading-keys { width: 100%; padding: 0 1; text-align: center; color: $text-muted; }
    """

    def __init__(self, text: str, width: int, keys: Sequence[str] = ()) -> None:
        super().__init__()
        self._text, self._width, self._keys = text, width, keys

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            page = Static(typeset(self._text) or "Nothing is written yet.", id="page", markup=False)
            page.styles.width = self._width + 4
            page.styles.max_width = "100%"
            yield page
        closing = " or ".join(["esc", *(key_name(key) for key in self._keys)])
        yield Static(f"{closing} goes back · space reads on", id="reading-keys", markup=False)

    def on_mount(self) -> None:
        scroll = self.query_one(VerticalScroll)
        scroll.focus()
        self.call_after_refresh(scroll.scroll_end, animate=False)

    def on_key(self, event: events.Key) -> None:
        scroll = self.query_one(VerticalScroll)
        if event.key in ("q", *self._keys):
            event.stop()
            self.close()
        elif event.key == "space":
            event.stop()
            scroll.scroll_page_down(animate=False)
