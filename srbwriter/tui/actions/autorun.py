"""The command that lets the program pick and write on by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.autorun import MOST_ROUNDS, Autorun, Run
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.write.branch_words import find_thoughts

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_LOOKS = 0.1  # seconds between two looks at the branches


@command(INSTRUMENTS, "Write on by itself", asks=True, writes=True)
def autorun(screen: WriteScreen) -> None:
    """Pick the likeliest branch of each round and write on, for some rounds; esc stops."""

    def begin(said: str) -> None:
        rounds = int(said) if said.strip().isdecimal() else 0  # refused
        if screen.arrangement.quiet:
            screen.rearrange(quiet=False)
        run = Autorun.of(screen.session).begin(rounds, screen.app.goes_on)
        _look_later(screen, run)

    question = f"Write on by itself: how many rounds, from 1 to {MOST_ROUNDS}?"
    screen.ask(Ask(question, str(Autorun.of(screen.session).rounds), select=True), begin)


def _look_later(screen: WriteScreen, run: Run) -> None:
    screen.editor.set_timer(_LOOKS, lambda: _look(screen, run))


def _look(screen: WriteScreen, run: Run) -> None:
    """Let the run pick if it can; while a dialog is open, the branches that it is about stay."""
    session = screen.session
    running = Autorun.of(session)

    def pick(index: int, go_on: bool) -> None:
        current, before = session.round, session.node
        text = current.branches[index].text if current is not None else ""
        end = find_thoughts(text).end  # thoughts do not belong to the story
        try:
            session.pick(index, None, text[end:] if end else None, go_on)
        finally:
            if session.node != before:
                screen.show_story()
                screen.leave_panes()

    if run.active and screen.on_top and (running.step(pick) or not run.active):
        screen.guarded(lambda: None)  # paints what changed
    if run.active:
        _look_later(screen, run)
    elif run is running.run:
        severity = "information" if run.problem is None else "error"
        screen.notify(running.outcome(run), severity=severity)
