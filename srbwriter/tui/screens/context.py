"""What the model sees: the context by source, in tokens, and what no longer fits in grey."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.tui.dialog import Dialog
from srbwriter.tui.widgets.status_line import bar

if TYPE_CHECKING:
    from srbwriter.session import Context
    from srbwriter.session.prompting import Part


_NAMES = {
    "bos": "start of text", "template": "chat template", "lore": "lorebook", "note": "author's note",
}  # fmt: skip


class ContextView(Dialog[None]):
    """The parts of a context, how large they are, and their text."""

    HEADING = "What the model sees"
    FOOT = "what is out of reach is in grey and between ⟨ ⟩ · esc goes back"
    BINDINGS = [Binding("q", "close", "Close", show=False)]

    DEFAULT_CSS = """
    ContextView > .box { width: 96; height: 90%; }
    ContextView VerticalScroll Static { height: auto; }
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._seen = context

    def content(self) -> ComposeResult:
        yield Static(self._budget())
        with VerticalScroll():
            yield Static(self._text())

    def _budget(self) -> Content:
        context = self._seen
        share = context.used / context.total if context.total else 0.0
        parts: list[tuple[str, str]] = [
            (f"{bar(share, 40)} {context.used} of {context.total} tokens\n", ""),
        ]
        for part in _rows(context.parts):
            fate = "" if part.fits else "  does not fit"
            parts.append(
                (f"  {part.source:<22}{part.tokens:>7} tokens{fate}\n", "" if part.fits else "$text-muted")
            )
        return Content.assemble(*parts)

    def _text(self) -> Content:
        parts: list[tuple[str, str]] = []
        for part in _rows(self._seen.parts):
            parts.append((f"\n── {part.source} ──\n", "bold $text-accent"))
            parts.append((part.text, "") if part.fits else (f"⟨{part.text}⟩", "$text-muted"))
        return Content.assemble(*parts)


def _rows(parts: list[Part]) -> list[Part]:
    """Neighbours of one source as one part; sources that still come up more than once are numbered."""
    joined = [
        replace(
            same[0],
            source=_NAMES.get(same[0].source, same[0].source),
            text="".join(part.text for part in same),
            tokens=sum(part.tokens for part in same),
        )
        for same in (list(group) for _, group in groupby(parts, lambda part: (part.source, part.fits)))
    ]
    counts = Counter(part.source for part in joined if part.fits)
    seen = Counter[str]()
    rows: list[Part] = []
    for part in joined:
        if part.fits and counts[part.source] > 1:
            seen[part.source] += 1
            part = replace(part, source=f"{part.source} {seen[part.source]} of {counts[part.source]}")
        rows.append(part)
    return rows
