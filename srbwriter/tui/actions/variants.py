"""Commands that write branches under different conditions, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.variants import Variants
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.sheet import Sheet

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer


@command(INSTRUMENTS, "Variants side by side", writes=True)
def variants(screen: Writer) -> None:
    """Write branches with your variants of note, memory, adapter, chat template or model, side by side."""
    Variants.of(screen.session).begin()


@command(INSTRUMENTS, "Edit variants", asks=True, writes=True)
def edit_variants(screen: Writer) -> None:
    """Edit the variants of this story, one per line: a label, and what differs."""
    session = screen.session

    def take(text: str) -> bool:
        return screen.guarded(lambda: Variants.of(session).put_sheet(text))

    about = 'What "Variants side by side" writes with, one per line, such as "rain: note = It rains all day."'
    sheet = Sheet("Variants", Variants.of(session).sheet, about, take, session.draft("variants"))
    screen.app.push_screen(sheet)
