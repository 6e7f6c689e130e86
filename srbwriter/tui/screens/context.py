"""What the model sees: the context by source, in tokens, and what no longer fits in grey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from srbwriter.tui.screens.push import leave
from srbwriter.tui.widgets.status_line import bar

if TYPE_CHECKING:
    from srbwriter.session import Context


class ContextView(ModalScreen[None]):
    """Escape closes it."""

    DEFAULT_CSS = """
    ContextView { align: center middle; background: $background 60%; }
    ContextView > Vertical {
        width: 96; max-width: 98%; height: 90%; background: $surface; border: round $primary; padding: 0 1;
    }
    ContextView Static { height: auto; }
    ContextView .foot { color: $text-muted; }
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._seen = context

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._budget())
            with VerticalScroll():
                yield Static(self._text())
            yield Static("what is out of reach is in grey and between ⟨ ⟩ · esc goes back", classes="foot")

    def _budget(self) -> Content:
        context = self._seen
        share = context.used / context.total if context.total else 0.0
        parts: list[tuple[str, str]] = [
            ("What the model sees\n", "bold $primary"),
            (f"{bar(share, 40)} {context.used} of {context.total} tokens\n", ""),
        ]
        for part in context.parts:
            fate = "" if part.fits else "  does not fit"
            parts.append(
                (f"  {part.source:<16}{part.tokens:>7} tokens{fate}\n", "" if part.fits else "$text-muted")
            )
        return Content.assemble(*parts)

    def _text(self) -> Content:
        parts: list[tuple[str, str]] = []
        for part in self._seen.parts:
            parts.append((f"\n── {part.source} ──\n", "bold $text-accent"))
            parts.append((part.text, "") if part.fits else (f"⟨{part.text}⟩", "$text-muted"))
        return Content.assemble(*parts)

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "q"):
            event.stop()
            leave(self)
