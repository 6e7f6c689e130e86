"""Commands that steer branches, one or all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.engine.types import BranchState
from srbwriter.tui.actions import verb
from srbwriter.tui.welcome import writes
from srbwriter.tui.words import state_words

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


@verb
def pick_number(screen: WriteScreen, number: int) -> None:
    screen.pick(number - 1)


@verb
def pick(screen: WriteScreen) -> None:
    pane = screen.grid.pane
    if pane is not None:
        screen.pick(pane.index, pane.take)


@verb
def reroll(screen: WriteScreen) -> None:
    screen.on_branch(screen.session.reroll)


@verb
def kill(screen: WriteScreen) -> None:
    screen.on_branch(screen.session.kill)


@verb
def stop(screen: WriteScreen) -> None:
    pane = screen.grid.pane
    if pane is not None and pane.branch is not None and not pane.branch.live:
        screen.notify(f"Branch {pane.index + 1} has ended already: {state_words(pane.branch)}.")
        return
    screen.on_branch(screen.session.stop_branch)


@verb
def pause(screen: WriteScreen) -> None:
    pane = screen.grid.pane
    if pane is None or pane.branch is None:
        return
    paused = pane.branch.state is BranchState.PAUSED
    screen.on_branch(screen.session.resume if paused else screen.session.pause)


@verb
def extend(screen: WriteScreen) -> None:
    pane = screen.grid.pane
    if pane is not None and pane.branch is not None and pane.branch.live:
        paused = pane.branch.state is BranchState.PAUSED
        words = "is paused: space lets it go on" if paused else "is still writing"
        screen.notify(f"Branch {pane.number} {words}.")
        return
    screen.on_branch(screen.session.extend)


@verb
def rewind(screen: WriteScreen) -> None:
    screen.on_branch(screen.session.rewind)


@verb
@writes
def generate(screen: WriteScreen) -> None:
    screen.write()


@verb
def reroll_all(screen: WriteScreen) -> None:
    screen.session.reroll_all()
    screen.pump.wake()


@verb
def stop_all(screen: WriteScreen) -> None:
    if not _gave_up(screen) and screen.writing:
        screen.session.stop_all()
        screen.pump.wake()


@verb
def back(screen: WriteScreen) -> None:
    """Never into the story: the keys pressed after it would be written there."""
    if screen.quiet:
        screen.be_quiet(False)
    elif screen.editor.has_focus and screen.grid.pane is not None:
        if not _gave_up(screen):
            screen.grid.go(screen.grid.current)
    else:
        stop_all(screen)


def _gave_up(screen: WriteScreen) -> bool:
    """Whether an export, an import or a load was under way, which is stopped now."""
    if screen.transfers.cancel():
        return True  # the line says so
    if screen.session.cancel_load():
        screen.flush_slowly()  # says what can be done now
        return True
    return False


@verb
def more(screen: WriteScreen) -> None:
    session = screen.session
    session.n += 1
    if session.round is not None and screen.grid.panes:
        session.add_branches(1)
    screen.pump.wake()


@verb
def fewer(screen: WriteScreen) -> None:
    session = screen.session
    if session.n <= 1:
        screen.notify("One branch is the least.")
        return
    session.n -= 1
    current = session.round
    if current is not None and len(current.branches) > session.n and current.branches[-1].live:
        session.kill(len(current.branches) - 1)
    screen.pump.wake()


@verb
def next_page(screen: WriteScreen) -> None:
    screen.grid.turn(1)


@verb
def previous_page(screen: WriteScreen) -> None:
    screen.grid.turn(-1)
