"""Commands that ask for a change in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.wishes import ask_wish, earlier_wishes
from srbwriter.tui.actions.branches import branch_here
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.wish import EXAMPLES, AskWish

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


@command(INSTRUMENTS, "Ask for a change", asks=True, writes=True)
def ask_change(screen: WriteScreen) -> None:
    """Write new branches that follow a wish in one line; it applies to these branches only."""
    if screen.arrangement.quiet:
        screen.rearrange(quiet=False)
    _ask(screen, f"Change in new branches, {EXAMPLES}")


@command(INSTRUMENTS, "Ask for a change in this branch", asks=True, writes=True)
def ask_change_here(screen: WriteScreen) -> None:
    """Write only this branch again, with a wish in one line; the others continue."""
    here = branch_here(screen)
    if here is not None:
        index = here[0].index
        _ask(screen, f"Change in branch {index + 1}, {EXAMPLES}", index)


def _ask(screen: WriteScreen, question: str, index: int | None = None) -> None:
    session = screen.session

    def take(wish: str) -> bool:
        return screen.guarded(lambda: ask_wish(session, wish, index))

    screen.app.push_screen(AskWish(question, take, session.draft("wish"), earlier_wishes(session.story)))
