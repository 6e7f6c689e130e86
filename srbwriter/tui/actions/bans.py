"""The command that edits the story's banned phrases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.bans import as_sheet, ban_phrases, sheet_lines
from srbwriter.story.model import counted
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.sheet import Sheet

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


@command(INSTRUMENTS, "Banned phrases", asks=True, writes=True)
def bans(screen: WriteScreen) -> None:
    """Edit the phrases that branches of this story must not contain; a list of clichés is suggested."""
    session = screen.session
    before = session.sampling.banned_phrases

    def take(text: str) -> bool:
        if why := session.capabilities.reason_for("banned_phrases"):
            screen.notify(why, severity="error")
            return False
        phrases = sheet_lines(text)
        done = screen.guarded(lambda: (ban_phrases(session, phrases), screen.app.knobs.keep()))
        if done:
            words = f"{counted(len(phrases), 'phrase')} banned." if phrases else "No phrase is banned now."
            screen.notify(words)
        return done

    banned = f"{counted(len(before), 'phrase')} banned."
    state = banned if before else "None banned yet: this is a suggested list."
    about = f"A branch that writes one of these goes back and writes something else. One per line. {state}"
    draft = session.draft("bans")
    screen.app.push_screen(Sheet("Banned phrases", as_sheet(before), about, take, draft, "bans them"))
