"""The command that steers the current branch while it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from srbwriter.session.steering import Steering
from srbwriter.tui.actions.branches import branch_here
from srbwriter.tui.commands import INSTRUMENTS, command, key_name
from srbwriter.tui.dialogs.ask import AskWords, Confirm
from srbwriter.tui.write.status import shortened

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


@command(INSTRUMENTS, "Steer this branch")
def steer(screen: WriteScreen) -> None:
    """Change what this branch writes next: a note for it alone, or the end of its sentence."""
    here = branch_here(screen)
    if here is None:
        return
    index = here[0].index
    acts: dict[str, Callable[[], object]] = {
        "n": lambda: _ask_note(screen, index),
        "s": lambda: _end(screen, index),
    }
    answers = {"n": "note for this branch", "s": "to the end of the sentence"}
    question = f"Steer branch {index + 1}"
    if note := Steering.of(screen.session).note(index):
        question += f"; its note: {shortened(note, 48)}"
    screen.ask(Confirm(question, {**answers, "escape": "goes back"}), lambda key: acts[key]())


def _when(screen: WriteScreen, index: int) -> str:
    """Return when a branch follows, if not now."""
    current = screen.session.round
    if current is None or index >= len(current.branches) or current.branches[index].live:
        return ""
    keys = screen.app.known_keys.plain.get("extend")
    return f" when it is extended ({key_name(keys[0])})" if keys else " when it is extended"


def _end(screen: WriteScreen, index: int) -> None:
    Steering.of(screen.session).end(index)
    screen.notify(f"Branch {index + 1} ends with its sentence.")


def _ask_note(screen: WriteScreen, index: int) -> None:
    session = screen.session

    def put(note: str) -> None:
        Steering.of(session).put_note(index, note)
        follows = f"follows its note{_when(screen, index)}" if note.strip() else "has no note"
        screen.notify(f"Branch {index + 1} {follows}.")

    def take(note: str) -> bool:
        return screen.guarded(lambda: put(note))

    question = f"Note for branch {index + 1} alone; leave it empty for none"
    draft = session.draft(f"note for branch {index + 1}")
    screen.app.push_screen(AskWords(question, take, draft, Steering.of(session).note(index)))
