"""What can be done to branches: to one, to a part of one, and to all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.engine.types import BranchState
from srbwriter.prose import Unit
from srbwriter.session.typing import Draft
from srbwriter.story import NodeId
from srbwriter.tui import external, status
from srbwriter.tui.commands import DIGITS, command
from srbwriter.tui.knobs import Setup
from srbwriter.tui.screens.ask import AskWords
from srbwriter.tui.screens.knobs import Knobs
from srbwriter.tui.screens.picker import Choice, Picker
from srbwriter.tui.screens.reading import Compare
from srbwriter.tui.screens.sheet import Sheet
from srbwriter.tui.welcome import writes
from srbwriter.tui.widgets.branch_words import state_words

if TYPE_CHECKING:
    from srbwriter.engine.generation import Branch
    from srbwriter.tui.widgets.branch_pane import BranchPane
    from srbwriter.tui.write_screen import WriteScreen


BRANCH = "This branch"


@command(BRANCH, "Pick a branch by number", DIGITS, hint="pick", numbered=True)
def pick_number(screen: WriteScreen, number: int) -> None:
    """Append branch 1 to 9 to the story; new ones go on from there."""
    screen.pick(number - 1)


@command(BRANCH, "Pick this branch", "enter")
def pick(screen: WriteScreen) -> None:
    """Append the branch to the story, up to the taking cursor if one is set."""
    pane = screen.grid.pane
    if pane is not None:
        screen.pick(pane.index, pane.take)


@command(BRANCH, "Re-roll this branch", "r", hint="re-roll")
def reroll(screen: WriteScreen) -> None:
    """Write it again from the start with a new seed; the others go on."""
    screen.on_branch(screen.session.reroll)


@command(BRANCH, "Kill this branch", "k", hint="kill", vim="x")
def kill(screen: WriteScreen) -> None:
    """End it, or one that has ended, and give its memory back."""
    screen.on_branch(screen.session.kill)


@command(BRANCH, "Stop this branch", "s")
def stop(screen: WriteScreen) -> None:
    """End it here and keep its text."""
    here = screen.branch_here()
    if here is not None and not _ended(screen, *here):
        screen.session.stop_branch(here[0].index)


@command(BRANCH, "Pause or resume this branch", "space")
def pause(screen: WriteScreen) -> None:
    """Hold the branch still, or let it go on."""
    here = screen.branch_here()
    if here is not None and not _ended(screen, *here):
        pane, branch = here
        paused = branch.state is BranchState.PAUSED
        (screen.session.resume if paused else screen.session.pause)(pane.index)


def _ended(screen: WriteScreen, pane: BranchPane, branch: Branch) -> bool:
    """Whether the branch writes no more; then the writer is told so."""
    if not branch.live:
        screen.notify(f"Branch {pane.index + 1} has ended already: {state_words(branch)}.")
    return not branch.live


@command(BRANCH, "Extend this branch", "e")
def extend(screen: WriteScreen) -> None:
    """Let a finished branch go on from where it ended."""
    pane = screen.grid.pane
    if pane is not None and pane.branch is not None and pane.branch.live:
        paused = pane.branch.state is BranchState.PAUSED
        words = "is paused: space lets it go on" if paused else "is still writing"
        screen.notify(f"Branch {pane.number} {words}.")
        return
    screen.on_branch(screen.session.extend)


@command(BRANCH, "Rewind one sentence", "backspace", hint="rewind")
def rewind(screen: WriteScreen) -> None:
    """Drop the branch's last sentence and write on from there with a new seed."""
    screen.on_branch(screen.session.rewind)


@command(BRANCH, "Type into this branch", "i")
@writes
def type_into(screen: WriteScreen) -> None:
    """Write words of your own at its end; it goes on from there."""
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


@command(BRANCH, "Edit, then pick", "o")
@writes
def edit_pick(screen: WriteScreen) -> None:
    """Change the branch's text on a sheet; what you keep becomes part of the story."""
    pane = screen.grid.pane
    if pane is None or pane.branch is None or not pane.branch.text:
        screen.notify("There is nothing to edit here yet.")
        return
    index, branch = pane.index, pane.branch
    screen.ask_if_stale(index, "edits it all the same", lambda: _edit_pick(screen, index, branch))


def _edit_pick(screen: WriteScreen, index: int, branch: Branch) -> None:
    if branch.live:
        screen.session.pause(index)
    text = screen.session.joined(index)

    def take(edited: str) -> bool:
        before = screen.session.node
        screen.guarded(lambda: screen.take(index, text=edited))
        return screen.session.node != before  # also where only the branches that follow are refused

    def closed(picked: bool | None) -> None:
        current = screen.session.round
        if not picked and current is not None and current.branches[index].live:
            screen.session.resume(index)

    about = "What stands here becomes part of the story when you pick it; the branch itself stays as it is."
    sheet = Sheet(f"Branch {index + 1}", text, about, take, _draft(screen, index), "picks it")
    screen.app.push_screen(sheet, closed)


@command(BRANCH, "Lock or unlock this branch", "l", vim="L")
def lock(screen: WriteScreen) -> None:
    """A locked branch is left alone when all are re-rolled."""
    screen.on_branch(screen.session.lock)


@command(BRANCH, "Copy this branch", "c", vim="y")
def copy(screen: WriteScreen) -> None:
    """Put its text on the clipboard."""
    here = screen.branch_here()
    if here is not None:
        external.copy(screen.app, here[1].text)
        screen.notify(f"Branch {here[0].index + 1} is on the clipboard.")


@command(BRANCH, "Rate up", "greater_than_sign")
def rate_up(screen: WriteScreen) -> None:
    """Mark the branch as good; again to take that back."""
    _rate(screen, 1)


def _rate(screen: WriteScreen, rating: int) -> None:
    node = screen.branch_node()
    if node is not None:
        story = screen.session.story
        story.mark(node, rating=0 if story.marks(node).rating == rating else rating)


@command(BRANCH, "Rate down", "less_than_sign")
def rate_down(screen: WriteScreen) -> None:
    """Mark the branch as bad; again to take that back."""
    _rate(screen, -1)


@command(BRANCH, "Bookmark this branch", "b")
def bookmark(screen: WriteScreen) -> None:
    """Mark it to find it again; again to take that back."""
    node = screen.branch_node()
    if node is not None:
        story = screen.session.story
        story.mark(node, bookmark=not story.marks(node).bookmark)


@command(BRANCH, "Knobs of this branch", "t")
def branch_knobs(screen: WriteScreen) -> None:
    """Change how this branch chooses its words, while it runs."""
    here = screen.branch_here()
    if here is None:
        return
    index, branch = here[0].index, here[1]

    def changed(setup: Setup) -> None:
        screen.guarded(lambda: screen.session.set_sampling(index, setup.sampling))

    now, lacks = Setup(branch.sampling, branch.stop_rule), screen.session.lacks
    screen.app.push_screen(Knobs(f"Knobs of branch {index + 1}", now, changed, lacks=lacks))


@command(BRANCH, "Compare with another branch", "vertical_line")
def compare(screen: WriteScreen) -> None:
    """Show the words in which two branches differ."""
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


TAKE = "Taking a part"


@command(TAKE, "Take a word more", "w")
def take_word(screen: WriteScreen) -> None:
    """Move the taking cursor to the next word's end."""
    _move(screen, "word", 1)


def _move(screen: WriteScreen, unit: Unit, direction: int) -> None:
    here = screen.branch_here()
    if here is not None:
        here[0].move_take(unit, direction)


@command(TAKE, "Take a word less", "W")
def untake_word(screen: WriteScreen) -> None:
    """Move the taking cursor back one word."""
    _move(screen, "word", -1)


@command(TAKE, "Take a sentence more", "d")
def take_sentence(screen: WriteScreen) -> None:
    """Move the taking cursor to the sentence's end."""
    _move(screen, "sentence", 1)


@command(TAKE, "Take a sentence less", "D")
def untake_sentence(screen: WriteScreen) -> None:
    """Move the taking cursor back one sentence."""
    _move(screen, "sentence", -1)


@command(TAKE, "Take a paragraph more", "f")
def take_paragraph(screen: WriteScreen) -> None:
    """Move the taking cursor to the paragraph's end."""
    _move(screen, "paragraph", 1)


@command(TAKE, "Take a paragraph less", "F")
def untake_paragraph(screen: WriteScreen) -> None:
    """Move the taking cursor back one paragraph."""
    _move(screen, "paragraph", -1)


ALL = "All branches"


@command(ALL, "Write new branches", "g", anywhere="ctrl+n", hint="write")
@writes
def generate(screen: WriteScreen) -> None:
    """Write N branches from where the story stands."""
    screen.write()


@command(ALL, "Write from the cursor", "G", anywhere="ctrl+b")
@writes
def write_from(screen: WriteScreen) -> None:
    """Write branches from the cursor on; what follows it becomes another branch."""
    place, whole = screen.editor.place, screen.editor.whole
    screen.session.write_from(place)
    screen.show_story()
    screen.flush()
    if whole[place:].strip():
        screen.notify("What followed is another branch now; undo brings it back.")


@command(ALL, "Stop everything")
def stop_all(screen: WriteScreen) -> None:
    """Stop an export or import, the load of a model, all branches, or the download of a model."""
    if _gave_up(screen):
        return
    if screen.writing:
        screen.session.stop_all()
        screen.pump.wake()
    elif not screen.app.fetch.cancel(screen):
        screen.notify("Nothing is being written.")


def _gave_up(screen: WriteScreen) -> bool:
    """Whether an export, an import or a load was under way, which is stopped now."""
    if screen.transfers.cancel():
        return True  # the line says so
    if screen.session.cancel_load():
        screen.flush_slowly()  # says what can be done now
        return True
    return False


@command(ALL, "Step back", anywhere="escape", hint="stop")
def back(screen: WriteScreen) -> None:
    """Stop an export, import or load; from the story go to the branches; there stop them, or a download."""
    # Never into the story: the keys pressed after it would be written there.
    if screen.quiet:
        screen.be_quiet(False)
    elif (screen.editor.has_focus or screen.unchosen) and screen.grid.pane is not None:
        if not _gave_up(screen):
            screen.choose_pane()
    else:
        stop_all(screen)


@command(ALL, "Re-roll all branches", "R")
def reroll_all(screen: WriteScreen) -> None:
    """Write all but the locked ones again with new seeds."""
    current = screen.session.round
    if current is None or not current.branches:
        screen.notify("There is no branch here yet.")
    elif current.locked.issuperset(range(len(current.branches))):
        screen.notify("All branches are locked.")
    else:
        screen.session.reroll_all()
        screen.pump.wake()


@command(ALL, "A branch more", "plus,equals_sign")
def more(screen: WriteScreen) -> None:
    """Add a branch, also while others are being written."""
    session = screen.session
    session.n += 1
    if session.round is not None and screen.grid.panes:
        session.add_branches(1)
    screen.pump.wake()


@command(ALL, "A branch fewer", "minus")
def fewer(screen: WriteScreen) -> None:
    """End the last branch, and write one fewer from now on."""
    session = screen.session
    if session.n <= 1:
        screen.notify("One branch is the least.")
        return
    session.n -= 1
    current = session.round
    if current is not None and len(current.branches) > session.n and current.branches[-1].live:
        session.kill(len(current.branches) - 1)
    screen.pump.wake()


@command(ALL, "Next page of branches", "right_square_bracket")
def next_page(screen: WriteScreen) -> None:
    """Show the branches that did not fit."""
    _turn(screen, 1)


def _turn(screen: WriteScreen, pages: int) -> None:
    if screen.grid.pages > 1:
        screen.grid.turn(pages)
    else:
        screen.notify("All branches are on this page.")


@command(ALL, "Previous page of branches", "left_square_bracket")
def previous_page(screen: WriteScreen) -> None:
    """Go back a page."""
    _turn(screen, -1)
