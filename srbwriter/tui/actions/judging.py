"""Commands that score branches by the writer's own questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.judging import Judging
from srbwriter.story.model import counted
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.sheet import Sheet

if TYPE_CHECKING:
    from srbwriter.session.judging import Judgement
    from srbwriter.tui.program import Writer


@command(INSTRUMENTS, "Score branches", anywhere="f7")
def judge(screen: Writer) -> None:
    """Score ended branches by your questions: the model answers each with yes or no."""
    judgement = Judging.of(screen.session).judge()
    if judgement.done:
        screen.notify("All branches that have ended are scored.")
        return
    _when_done(screen, judgement)


def _when_done(screen: Writer, judgement: Judgement) -> None:
    if not judgement.done:
        screen.editor.set_timer(0.1, lambda: _when_done(screen, judgement))
        return
    screen.grid.sort_by(screen.grid.sorting)  # the order may depend on the scores
    if judgement.error is not None:
        screen.notify(f"Some branches could not be scored: {judgement.error}", severity="error")
    elif judgement.stopped:
        screen.notify("Scoring stopped. Scores that were found stay.")
    else:
        branches = "1 branch" if judgement.total == 1 else f"{judgement.total} branches"
        asked = counted(len(judgement.questions), "question")
        screen.notify(f"Scored {branches} on {asked}: ✓80 means the model says yes with 80 %.")


@command(INSTRUMENTS, "Questions for scoring", asks=True, writes=True)
def rubric(screen: Writer) -> None:
    """Edit the questions by which branches are scored, one per line."""
    session = screen.session

    def take(text: str) -> bool:
        return screen.guarded(lambda: Judging.of(session).put_rubric(text))

    about = "Yes-or-no questions about a branch, one per line."
    sheet = Sheet("Questions for scoring", Judging.of(session).rubric, about, take, session.draft("rubric"))
    screen.app.push_screen(sheet)
