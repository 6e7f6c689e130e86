"""Commands that leave marks on a branch, or change its words by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.typing import Draft
from srbwriter.story import NodeId
from srbwriter.tui import clipboard, status
from srbwriter.tui.screens.ask import AskWords
from srbwriter.tui.screens.compare import Compare
from srbwriter.tui.screens.picker import Choice, Picker
from srbwriter.tui.screens.sheet import Sheet
from srbwriter.tui.verbs import verb
from srbwriter.tui.welcome import writes

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk


@verb
def lock(desk: Desk) -> None:
    desk.on_branch(desk.session.lock)


@verb
@writes
def type_into(desk: Desk) -> None:
    pane = desk.grid.pane
    if pane is None or pane.branch is None:
        desk.say("There is no branch here yet.")
        return
    index = pane.index
    pane.follow()  # the words go to the end, so that is what the writer has to see

    def take(words: str) -> bool:
        return not words or desk.guarded(lambda: desk.session.append(index, words))

    node = status.node_of(desk.session, index)
    question = f"Words for branch {index + 1}; it goes on from there"
    desk.bench.push_screen(AskWords(question, take, _draft(desk, index, node)))


def _draft(desk: Desk, index: int, node: NodeId | None = None) -> Draft:
    """Where words for branch ``index`` are safe meanwhile: below ``node``, or beside the branch."""
    session = desk.session
    if node is None:
        node = session.round.parent if session.round is not None else session.node
    return session.draft(Draft.below(node, index))


@verb
@writes
def edit_pick(desk: Desk) -> None:
    pane = desk.grid.pane
    if pane is None or pane.branch is None or not pane.branch.text:
        desk.say("There is nothing to edit here yet.")
        return
    index, text = pane.index, pane.branch.text
    if pane.branch.live:
        desk.session.pause(index)

    def take(edited: str) -> bool:
        before = desk.session.node
        desk.guarded(lambda: desk.pick(index, text=edited))
        return desk.session.node != before  # also where only the branches that follow are refused

    def closed(picked: bool | None) -> None:
        current = desk.session.round
        if not picked and current is not None and current.branches[index].live:
            desk.session.resume(index)

    about = "What stands here becomes part of the story when you pick it; the branch itself stays as it is."
    sheet = Sheet(f"Branch {index + 1}", text, about, take, _draft(desk, index), "picks it")
    desk.bench.push_screen(sheet, closed)


@verb
def copy(desk: Desk) -> None:
    pane = desk.grid.pane
    if pane is not None and pane.branch is not None:
        clipboard.copy(desk.bench, pane.branch.text)
        desk.say(f"Branch {pane.index + 1} is on the clipboard.")


def _rate(desk: Desk, rating: int) -> None:
    node = desk.branch_node()
    if node is not None:
        story = desk.session.story
        story.mark(node, rating=0 if story.marks(node).rating == rating else rating)


@verb
def rate_up(desk: Desk) -> None:
    _rate(desk, 1)


@verb
def rate_down(desk: Desk) -> None:
    _rate(desk, -1)


@verb
def bookmark(desk: Desk) -> None:
    node = desk.branch_node()
    if node is not None:
        story = desk.session.story
        story.mark(node, bookmark=not story.marks(node).bookmark)


@verb
def compare(desk: Desk) -> None:
    current, pane = desk.session.round, desk.grid.pane
    if current is None or pane is None or len(current.branches) < 2:
        desk.say("There are no two branches to compare.")
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
            desk.bench.push_screen(Compare((f"Branch {here + 1}", f"Branch {other + 1}"), texts))

    desk.bench.push_screen(Picker(f"Compare branch {here + 1} with", others), chosen)
