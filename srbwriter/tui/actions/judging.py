"""How good the branches are, by the writer's own questions; and what they are not to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session import bans as banning
from srbwriter.story.model import counted
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.screens.sheet import Sheet
from srbwriter.tui.welcome import writes

if TYPE_CHECKING:
    from srbwriter.session.judging import Judgement
    from srbwriter.tui.write_screen import WriteScreen


@command(INSTRUMENTS, "Judge the branches", "semicolon", anywhere="f7", hint="judge")
def judge(screen: WriteScreen) -> None:
    """Score all ended branches by your rubric: how likely the model answers yes, in the head of each."""
    judgement = screen.session.judge()
    count = counted(len(judgement.questions), "question")
    screen.notify(f"Judged by {count}: ✓ is how likely a yes is, in percent.")
    _when_done(screen, judgement)


def _when_done(screen: WriteScreen, judgement: Judgement) -> None:
    if not judgement.done:
        screen.set_timer(0.1, lambda: _when_done(screen, judgement))
        return
    screen.flush_slowly()
    screen.put_in_order(screen.order)  # it may be that of the scores
    if judgement.error is not None:
        screen.notify(f"Not all could be judged: {judgement.error}", severity="error")


@command(INSTRUMENTS, "Rubric", "left_parenthesis")
@writes
def rubric(screen: WriteScreen) -> None:
    """The questions that branches are judged by, one a line."""
    session = screen.session

    def take(text: str) -> bool:
        return screen.guarded(lambda: session.put_rubric(text))

    about = "Questions about a branch, one a line, to be answered with yes or no."
    screen.app.push_screen(Sheet("Rubric", session.rubric, about, take, session.draft("rubric")))


@command(INSTRUMENTS, "Phrases that never come", "right_parenthesis")
@writes
def bans(screen: WriteScreen) -> None:
    """Phrases that branches of this story never write; a list of clichés to begin with."""
    session = screen.session
    before = session.sampling.banned_phrases

    def take(text: str) -> bool:
        if why := session.lacks("banned_phrases"):
            screen.notify(why, severity="error")
            return False
        phrases = banning.sheet_lines(text)
        done = screen.guarded(lambda: (banning.ban(session, phrases), screen.app.knobs.keep()))
        if done:
            screen.notify(f"{counted(len(phrases), 'phrase')} will not come." if phrases else "All may come.")
        return done

    state = (
        f"{counted(len(before), 'phrase')} banned."
        if before
        else "None banned yet: this is a list to begin with."
    )
    about = f"Branches go back before one of these and take another way. One a line. {state}"
    screen.app.push_screen(
        Sheet(
            "Phrases that never come",
            banning.as_sheet(before),
            about,
            take,
            session.draft("bans"),
            "bans them",
        )
    )
