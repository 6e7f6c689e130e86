"""Commands that leave marks on a branch, or change its words by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.engine.types import BranchState
from srbwriter.session.typing import Draft
from srbwriter.story import NodeId
from srbwriter.tui import clipboard, status
from srbwriter.tui.actions import verb
from srbwriter.tui.screens.ask import AskWords
from srbwriter.tui.screens.compare import Compare
from srbwriter.tui.screens.picker import Choice, Picker
from srbwriter.tui.screens.sheet import Sheet
from srbwriter.tui.welcome import writes

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


@verb
def lock(screen: WriteScreen) -> None:
    screen.on_branch(screen.session.lock)


@verb
@writes
def type_into(screen: WriteScreen) -> None:
    here = screen.branch_here()
    if here is None:
        return
    pane, branch = here
    index = pane.index
    held = branch.live and branch.state is not BranchState.PAUSED
    if held:  # else it would write on where the words are to go
        screen.session.pause(index)
    pane.follow()  # the words go to the end, so that is what the writer has to see

    def take(words: str) -> bool:
        return not words or screen.guarded(lambda: screen.session.append(index, words))

    def closed(words: str | None) -> None:
        if not words and held and branch.live:
            screen.session.resume(index)

    node = status.node_of(screen.session, index)
    question = f"Words for branch {index + 1}; it goes on from there"
    screen.app.push_screen(AskWords(question, take, _draft(screen, index, node)), closed)


def _draft(screen: WriteScreen, index: int, node: NodeId | None = None) -> Draft:
    """Where words for branch ``index`` are safe meanwhile: below ``node``, or beside the branch."""
    session = screen.session
    if node is None:
        node = session.round.parent if session.round is not None else session.node
    return session.draft(Draft.below(node, index))


@verb
@writes
def edit_pick(screen: WriteScreen) -> None:
    pane = screen.grid.pane
    if pane is None or pane.branch is None or not pane.branch.text:
        screen.notify("There is nothing to edit here yet.")
        return
    index, text = pane.index, pane.branch.text
    if pane.branch.live:
        screen.session.pause(index)

    def take(edited: str) -> bool:
        before = screen.session.node
        screen.guarded(lambda: screen.pick(index, text=edited))
        return screen.session.node != before  # also where only the branches that follow are refused

    def closed(picked: bool | None) -> None:
        current = screen.session.round
        if not picked and current is not None and current.branches[index].live:
            screen.session.resume(index)

    about = "What stands here becomes part of the story when you pick it; the branch itself stays as it is."
    sheet = Sheet(f"Branch {index + 1}", text, about, take, _draft(screen, index), "picks it")
    screen.app.push_screen(sheet, closed)


@verb
def copy(screen: WriteScreen) -> None:
    pane = screen.grid.pane
    if pane is not None and pane.branch is not None:
        clipboard.copy(screen.app, pane.branch.text)
        screen.notify(f"Branch {pane.index + 1} is on the clipboard.")


def _rate(screen: WriteScreen, rating: int) -> None:
    node = screen.branch_node()
    if node is not None:
        story = screen.session.story
        story.mark(node, rating=0 if story.marks(node).rating == rating else rating)


@verb
def rate_up(screen: WriteScreen) -> None:
    _rate(screen, 1)


@verb
def rate_down(screen: WriteScreen) -> None:
    _rate(screen, -1)


@verb
def bookmark(screen: WriteScreen) -> None:
    node = screen.branch_node()
    if node is not None:
        story = screen.session.story
        story.mark(node, bookmark=not story.marks(node).bookmark)


@verb
def compare(screen: WriteScreen) -> None:
    current, pane = screen.session.round, screen.grid.pane
    if current is None or pane is None or len(current.branches) < 2:
        screen.notify("There are no two branches to compare.")
        return
    here = pane.index
    others = [
        Choice(branch.index, f"Branch {branch.index + 1}", preview=branch.text)
        for branch in current.branches
        if branch.index != here
    ]

    def chosen(other: int | None) -> None:
        if other is not None:
            texts = current.branches[here].text, current.branches[other].text
            screen.app.push_screen(Compare((f"Branch {here + 1}", f"Branch {other + 1}"), texts))

    screen.app.push_screen(Picker(f"Compare branch {here + 1} with", others), chosen)
