"""Commands that steer branches, one or all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.engine.types import BranchState
from srbwriter.tui.verbs import verb
from srbwriter.tui.welcome import writes
from srbwriter.tui.words import state_words

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk


@verb
def pick_number(desk: Desk, number: int) -> None:
    desk.pick(number - 1)


@verb
def pick(desk: Desk) -> None:
    pane = desk.grid.pane
    if pane is not None:
        desk.pick(pane.index, pane.take)


@verb
def reroll(desk: Desk) -> None:
    desk.on_branch(desk.session.reroll)


@verb
def kill(desk: Desk) -> None:
    desk.on_branch(desk.session.kill)


@verb
def stop(desk: Desk) -> None:
    pane = desk.grid.pane
    if pane is not None and pane.branch is not None and not pane.branch.live:
        desk.say(f"Branch {pane.index + 1} has ended already: {state_words(pane.branch)}.")
        return
    desk.on_branch(desk.session.stop_branch)


@verb
def pause(desk: Desk) -> None:
    pane = desk.grid.pane
    if pane is None or pane.branch is None:
        return
    paused = pane.branch.state is BranchState.PAUSED
    desk.on_branch(desk.session.resume if paused else desk.session.pause)


@verb
def extend(desk: Desk) -> None:
    desk.on_branch(desk.session.extend)


@verb
def rewind(desk: Desk) -> None:
    desk.on_branch(desk.session.rewind)


@verb
@writes
def generate(desk: Desk) -> None:
    desk.write()


@verb
def reroll_all(desk: Desk) -> None:
    desk.session.reroll_all()
    desk.pump.wake()


@verb
def stop_all(desk: Desk) -> None:
    if not _gave_up(desk) and desk.writing:
        desk.session.stop_all()
        desk.pump.wake()


@verb
def back(desk: Desk) -> None:
    """Never into the story: the keys pressed after it would be written there."""
    if desk.editor.has_focus and desk.grid.pane is not None:
        if not _gave_up(desk):
            desk.grid.go(desk.grid.current)
    else:
        stop_all(desk)


def _gave_up(desk: Desk) -> bool:
    """Whether an export, an import or a load was under way, which is stopped now."""
    if desk.exchange.cancel():
        return True  # the line says so
    if desk.session.cancel_load():
        desk.flush_slowly()  # says what can be done now
        return True
    return False


@verb
def more(desk: Desk) -> None:
    session = desk.session
    session.n += 1
    if session.round is not None and desk.grid.panes:
        session.add_branches(1)
    desk.pump.wake()


@verb
def fewer(desk: Desk) -> None:
    session = desk.session
    if session.n <= 1:
        desk.say("One branch is the least.")
        return
    session.n -= 1
    current = session.round
    if current is not None and len(current.branches) > session.n and current.branches[-1].live:
        session.kill(len(current.branches) - 1)
    desk.pump.wake()


@verb
def next_page(desk: Desk) -> None:
    desk.grid.turn(1)


@verb
def previous_page(desk: Desk) -> None:
    desk.grid.turn(-1)
