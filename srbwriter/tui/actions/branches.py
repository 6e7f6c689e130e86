"""Commands on branches: on one branch, on a part of one, and on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.engine.types import BranchState
from srbwriter.engine.verbs import VERBS, BranchVerb
from srbwriter.prose import Unit
from srbwriter.session.typing import Draft
from srbwriter.story import NodeId
from srbwriter.tui.commands import DIGITS, PART, THIS_BRANCH, command
from srbwriter.tui.dialogs.ask import AskWords, asks
from srbwriter.tui.dialogs.knobs import Knobs
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.dialogs.sheet import Sheet
from srbwriter.tui.knobs import Setup
from srbwriter.tui.story import external
from srbwriter.tui.story.reading import Compare
from srbwriter.tui.write import status
from srbwriter.tui.write.branch_words import state_words
from srbwriter.tui.write.welcome import writes

if TYPE_CHECKING:
    from srbwriter.engine.generation import Branch
    from srbwriter.tui.write.screen import WriteScreen


@command(THIS_BRANCH, "Pick a branch by number", DIGITS, numbered=True)
def pick_number(screen: WriteScreen, number: int) -> None:
    """Append branch 1 to 9 to the story; new branches continue from there."""
    screen.pick(number - 1)


@command(THIS_BRANCH, "Pick this branch", "enter")
def pick(screen: WriteScreen) -> None:
    """Append the branch to the story, up to the taking cursor if one is set."""
    pane = screen.grid.pane
    if pane is not None:
        screen.pick(pane.index, pane.take)


@command(THIS_BRANCH, "Re-roll this branch", "r")
def reroll(screen: WriteScreen) -> None:
    """Write this branch again from the start with a new seed; the others continue."""
    _steer(screen, "reroll")


@command(THIS_BRANCH, "Kill this branch", "k", vim="x")
def kill(screen: WriteScreen) -> None:
    """End this branch, running or ended, and free its memory."""
    _steer(screen, "kill")


@command(THIS_BRANCH, "Stop this branch", "s")
def stop(screen: WriteScreen) -> None:
    """End this branch here and keep its text."""
    _steer(screen, "stop")


@command(THIS_BRANCH, "Pause or resume this branch", "space")
def pause(screen: WriteScreen) -> None:
    """Pause this branch, or resume it."""
    pane = screen.grid.pane
    branch = pane.branch if pane is not None else None
    _steer(screen, "resume" if branch is not None and branch.state is BranchState.PAUSED else "pause")


def _steer(screen: WriteScreen, verb: BranchVerb, **arguments: object) -> bool:
    """Apply a verb to the current branch; if it does not apply now, notify the writer and return False."""
    here = screen.branch_here()
    if here is None:
        return False
    pane, branch = here
    problem = VERBS[verb].problem(branch)
    if not problem:
        screen.session.steer(pane.index, verb, **arguments)
        return True
    more = f": {state_words(branch)}" if not branch.live else ""
    more = more or (": space resumes it" if branch.state is BranchState.PAUSED else "")
    screen.notify(f"Branch {pane.index + 1} {problem}{more}.")
    return False


@command(THIS_BRANCH, "Extend this branch", "e")
def extend(screen: WriteScreen) -> None:
    """Continue a finished branch from its end."""
    if _steer(screen, "extend") and screen.grid.pane is not None:
        screen.grid.pane.follow()  # the new words are at the end


@command(THIS_BRANCH, "Rewind one sentence", "backspace")
def rewind(screen: WriteScreen) -> None:
    """Drop the branch's last sentence and continue from there with a new seed."""
    _steer(screen, "rewind", sentences=1)


@command(THIS_BRANCH, "Type into this branch", "i")
@asks
@writes
def type_into(screen: WriteScreen) -> None:
    """Add your own words at its end; the branch continues from them."""
    here = screen.branch_here()
    if here is None:
        return
    pane, branch = here
    index = pane.index
    held = branch.live and branch.state is not BranchState.PAUSED
    if held:  # a running branch would append its own text before the words
        screen.session.steer(index, "pause")
    pane.follow()  # the words are appended at the end, so scroll there

    def take(words: str) -> bool:
        return not words or screen.guarded(lambda: screen.session.append(index, words))

    def closed(words: str | None) -> None:
        if not words and held and branch.live:
            screen.session.steer(index, "resume")

    node = status.node_of(screen.session, index)
    question = f"Type into branch {index + 1}; it continues from your words"
    screen.app.push_screen(AskWords(question, take, _draft(screen, index, node)), closed)


def _draft(screen: WriteScreen, index: int, node: NodeId | None = None) -> Draft:
    """Return the draft that keeps unsent words for branch ``index``: below ``node``, or beside the branch."""
    session = screen.session
    if node is None:
        node = session.round.parent if session.round is not None else session.node
    return session.draft(Draft.below(node, index))


@command(THIS_BRANCH, "Edit, then pick", "o")
@asks
@writes
def edit_pick(screen: WriteScreen) -> None:
    """Edit the branch's text, then add the edited text to the story."""
    pane = screen.grid.pane
    if pane is None or pane.branch is None or not pane.branch.text:
        screen.notify("There is nothing to edit here yet.")
        return
    index, branch = pane.index, pane.branch
    screen.ask_if_stale(index, "edits it all the same", lambda: _edit_pick(screen, index, branch))


def _edit_pick(screen: WriteScreen, index: int, branch: Branch) -> None:
    if branch.live:
        screen.session.steer(index, "pause")
    text = screen.session.joined(index)

    def take(edited: str) -> bool:
        before = screen.session.node
        screen.guarded(lambda: screen.take(index, text=edited))
        return screen.session.node != before  # True too if the pick worked and only the next round failed

    def closed(picked: bool | None) -> None:
        current = screen.session.round
        if not picked and current is not None and current.branches[index].live:
            screen.session.steer(index, "resume")

    about = "Picking adds this text to the story; the branch itself does not change."
    sheet = Sheet(f"Branch {index + 1}", text, about, take, _draft(screen, index), "picks it")
    screen.app.push_screen(sheet, closed)


@command(THIS_BRANCH, "Lock or unlock this branch", letters="l", vim="L")
def lock(screen: WriteScreen) -> None:
    """Lock this branch, so that re-rolling all branches leaves it alone; again to unlock it."""
    here = screen.branch_here()
    if here is not None:
        screen.session.lock(here[0].index)


@command(THIS_BRANCH, "Copy this branch", "c", vim="y")
def copy(screen: WriteScreen) -> None:
    """Copy its text to the clipboard."""
    here = screen.branch_here()
    if here is not None:
        external.copy(screen.app, here[1].text)
        screen.notify(f"Branch {here[0].index + 1} is on the clipboard.")


@command(THIS_BRANCH, "Rate up")
def rate_up(screen: WriteScreen) -> None:
    """Rate the branch as good; again to remove the rating."""
    _rate(screen, 1)


def _rate(screen: WriteScreen, rating: int) -> None:
    node = screen.branch_node()
    if node is not None:
        story = screen.session.story
        story.mark(node, rating=0 if story.marks(node).rating == rating else rating)


@command(THIS_BRANCH, "Rate down")
def rate_down(screen: WriteScreen) -> None:
    """Rate the branch as bad; again to remove the rating."""
    _rate(screen, -1)


@command(THIS_BRANCH, "Bookmark this branch", "b")
def bookmark(screen: WriteScreen) -> None:
    """Bookmark the branch, to find it later; again to remove the bookmark."""
    node = screen.branch_node()
    if node is not None:
        story = screen.session.story
        story.mark(node, bookmark=not story.marks(node).bookmark)


@command(THIS_BRANCH, "Settings of this branch", letters="t")
def branch_knobs(screen: WriteScreen) -> None:
    """Change how this branch is written, also while it runs."""
    here = screen.branch_here()
    if here is None:
        return
    index, branch = here[0].index, here[1]

    def changed(setup: Setup) -> None:
        screen.guarded(lambda: screen.session.steer(index, "set_sampling", sampling=setup.sampling))

    now, can = Setup(branch.sampling, branch.stop_rule), screen.session.capabilities
    screen.app.push_screen(Knobs(f"Settings of branch {index + 1}", now, changed, can=can))


@command(THIS_BRANCH, "Compare with another branch")
def compare(screen: WriteScreen) -> None:
    """Show the words that differ between two branches."""
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


@command(PART, "Take a word more", "w")
def take_word(screen: WriteScreen) -> None:
    """Move the taking cursor to the next word's end."""
    _move(screen, "word", 1)


def _move(screen: WriteScreen, unit: Unit, direction: int) -> None:
    here = screen.branch_here()
    if here is not None:
        here[0].move_take(unit, direction)


@command(PART, "Take a word less", "W")
def untake_word(screen: WriteScreen) -> None:
    """Move the taking cursor back one word."""
    _move(screen, "word", -1)


@command(PART, "Take a sentence more", "d")
def take_sentence(screen: WriteScreen) -> None:
    """Move the taking cursor to the sentence's end."""
    _move(screen, "sentence", 1)


@command(PART, "Take a sentence less", "D")
def untake_sentence(screen: WriteScreen) -> None:
    """Move the taking cursor back one sentence."""
    _move(screen, "sentence", -1)


@command(PART, "Take a paragraph more", "f")
def take_paragraph(screen: WriteScreen) -> None:
    """Move the taking cursor to the paragraph's end."""
    _move(screen, "paragraph", 1)


@command(PART, "Take a paragraph less", "F")
def untake_paragraph(screen: WriteScreen) -> None:
    """Move the taking cursor back one paragraph."""
    _move(screen, "paragraph", -1)


ALL = "All branches"


@command(ALL, "Write new branches", letters="g", anywhere="ctrl+n")
@writes
def generate(screen: WriteScreen) -> None:
    """Write N branches from the end of the story so far."""
    screen.write()


@command(ALL, "Write from the cursor", letters="G", anywhere="ctrl+b")
@writes
def write_from(screen: WriteScreen) -> None:
    """Write branches from the cursor; the text after it becomes another branch."""
    place, whole = screen.editor.place, screen.editor.whole
    screen.session.write_from(place)
    screen.show_story()
    screen.flush()
    if whole[place:].strip():
        screen.notify("The text after the cursor is another branch now; undo puts it back.")


@command(ALL, "Stop everything")
def stop_all(screen: WriteScreen) -> None:
    """Stop an export or import, loading a model, scoring, all branches, or the download of a model."""
    if _gave_up(screen):
        return
    if screen.writing:
        screen.session.stop_all()
        screen.pump.wake()
    elif not screen.app.fetch.cancel(screen):
        screen.notify("Nothing is being written.")


def _gave_up(screen: WriteScreen) -> bool:
    """Stop the export, import, load or long work of an instrument; return whether there was one."""
    if screen.transfers.cancel():
        return True  # the status line reports it
    if (work := screen.session.long_work) is not None:
        work.stop()
        screen.flush_slowly()
        return True
    if screen.session.cancel_load():
        screen.flush_slowly()  # redraws the status line with the keys that work now
        return True
    return False


@command(ALL, "Step back", anywhere="escape")
def back(screen: WriteScreen) -> None:
    """Stop an export, import, load or scoring; or go from the story to the branches; there, remove the taking
    cursor, then stop the branches."""
    # Never focus the story here: keys pressed next would be typed into it.
    if screen.quiet:
        screen.be_quiet(False)
    elif (screen.editor.has_focus or screen.unchosen) and screen.grid.pane is not None:
        if not _gave_up(screen):
            screen.choose_pane()
    elif (pane := screen.grid.pane) is not None and pane.take is not None:
        pane.take_to(0)
    else:
        stop_all(screen)


@command(ALL, "Re-roll all branches", "R")
def reroll_all(screen: WriteScreen) -> None:
    """Write all branches but the locked ones again with new seeds."""
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
    """Add a branch, even while others are running."""
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
        screen.notify("One branch is the minimum.")
        return
    session.n -= 1
    current = session.round
    if current is not None and len(current.branches) > session.n and current.branches[-1].live:
        session.steer(len(current.branches) - 1, "kill")
    screen.pump.wake()


@command(ALL, "Next page of branches")
def next_page(screen: WriteScreen) -> None:
    """Show the next page of branches."""
    _turn(screen, 1)


def _turn(screen: WriteScreen, pages: int) -> None:
    if screen.grid.pages > 1:
        screen.grid.turn(pages)
    else:
        screen.notify("All branches are on this page.")


@command(ALL, "Previous page of branches")
def previous_page(screen: WriteScreen) -> None:
    """Show the previous page of branches."""
    _turn(screen, -1)
