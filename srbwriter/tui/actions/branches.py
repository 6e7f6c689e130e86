"""Commands on branches: on one branch, on a part of one, and on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.engine.types import BranchState
from srbwriter.engine.verbs import VERBS, BranchVerb
from srbwriter.prose import Unit
from srbwriter.story.model import counted
from srbwriter.story.words import words_of
from srbwriter.tui import options
from srbwriter.tui.commands import DIGITS, PART, THIS_BRANCH, command
from srbwriter.tui.dialogs.ask import Confirm
from srbwriter.tui.write import status
from srbwriter.tui.write.branch_words import state_words

if TYPE_CHECKING:
    from srbwriter.tui.write.branch_pane import BranchPane
    from srbwriter.tui.write.screen import WriteScreen


ALL = "All branches"
_SEEN_SECONDS = 0.4  # that a branch has stood on the screen before a digit can be meant for it


@command(ALL, "Pick a branch by number", DIGITS, numbered=True, foot="pick")
def pick_number(screen: WriteScreen, number: int) -> None:
    """Append branch 1 to 9 to the story; new branches continue from there."""
    pane = screen.grid.panes[number - 1] if number <= len(screen.grid.panes) else None
    has_words = pane is not None and pane.branch is not None and bool(pane.branch.text.strip())
    if pane is not None and has_words and not screen.pressed_at - pane.words_at >= _SEEN_SECONDS:
        screen.notify(f"Branch {number} has only just appeared. Press {number} again to pick it.")
    elif not _pick(screen, number - 1):
        screen.leave_panes()  # what is typed now was meant to follow the pick


@command(THIS_BRANCH, "Pick this branch", "enter")
def pick(screen: WriteScreen, pane: BranchPane) -> None:
    """Append the branch to the story, up to the taking cursor if one is set."""
    _pick(screen, pane.index, pane.take)


def _pick(screen: WriteScreen, index: int, upto: int | None = None) -> bool:
    """Append a branch, or its first ``upto`` characters, to the story.

    Return False, and say why, if there is nothing to append.
    """
    current = screen.session.round
    if current is None or not 0 <= index < len(current.branches):
        words = f"There is no branch {index + 1}."
    elif not current.branches[index].text.strip():
        words = f"Branch {index + 1} has no words yet."
    else:
        if screen.session.stale:
            screen.attend(_take_stale(screen, index, upto))
        else:
            _take(screen, index, upto)
        return True
    screen.notify(words)
    return False


def _take(screen: WriteScreen, index: int, upto: int | None = None) -> None:
    """Append a branch, or its first ``upto`` characters, to the story, and write new branches if the writer
    has chosen that."""
    session, pane = screen.session, screen.grid.panes[index]
    pane.pull()
    text = None
    if pane.thoughts.end:  # thoughts do not belong to the story
        text, upto = pane.text[:upto], None
    before = session.node
    try:
        session.pick(index, upto, text, screen.app.preferences[options.CONTINUE])
    finally:
        if session.node != before:  # also if the pick worked and only the next round failed
            screen.show_story()
            screen.leave_panes()


async def _take_stale(screen: WriteScreen, index: int, upto: int | None) -> None:
    """Ask before a branch that was written for an earlier text is appended."""
    question = f"Branch {index + 1} was written for an earlier text; the words before it have changed."
    answers = {
        "enter": "writes new branches for the text as it is",
        "t": "picks it anyway",
        "escape": "goes back",
    }
    key = await screen.app.ask(Confirm(question, answers))
    if key == "t":
        _take(screen, index, upto)
    elif key == "enter":
        screen.run("generate")


@command(THIS_BRANCH, "Re-roll this branch", "r", foot="re-roll")
def reroll(screen: WriteScreen, pane: BranchPane) -> None:
    """Write this branch again from the start with a new seed; the others continue."""
    _steer(screen, pane, "reroll")


@command(THIS_BRANCH, "Kill this branch", "k", foot="kill")
def kill(screen: WriteScreen, pane: BranchPane) -> None:
    """End this branch, running or ended, and free its memory."""
    _steer(screen, pane, "kill")


@command(THIS_BRANCH, "Stop this branch", "s")
def stop(screen: WriteScreen, pane: BranchPane) -> None:
    """End this branch here and keep its text."""
    _steer(screen, pane, "stop")


@command(THIS_BRANCH, "Pause or resume this branch", "space")
def pause(screen: WriteScreen, pane: BranchPane) -> None:
    """Pause this branch, or resume it."""
    paused = pane.branch is not None and pane.branch.state is BranchState.PAUSED
    _steer(screen, pane, "resume" if paused else "pause")


def _steer(screen: WriteScreen, pane: BranchPane, verb: BranchVerb, **arguments: object) -> bool:
    """Apply a verb to a branch; if it does not apply now, notify the writer and return False."""
    branch = pane.branch
    if branch is None or not (problem := VERBS[verb].problem(branch)):
        screen.session.steer(pane.index, verb, **arguments)
        return True
    more = f": {state_words(branch)}" if not branch.live else ""
    more = more or (": space resumes it" if branch.state is BranchState.PAUSED else "")
    screen.notify(f"Branch {pane.index + 1} {problem}{more}.")
    return False


@command(THIS_BRANCH, "Extend this branch", "e")
def extend(screen: WriteScreen, pane: BranchPane) -> None:
    """Continue a finished branch from its end."""
    if _steer(screen, pane, "extend"):
        pane.follow_end()  # the new words are at the end


@command(THIS_BRANCH, "Rewind one sentence", "backspace")
def rewind(screen: WriteScreen, pane: BranchPane) -> None:
    """Drop the branch's last sentence and continue from there with a new seed."""
    _steer(screen, pane, "rewind", sentences=1)


@command(THIS_BRANCH, "Copy this branch", "c")
def copy(screen: WriteScreen, pane: BranchPane) -> None:
    """Copy its text to the clipboard."""
    screen.app.copy_to_clipboard(pane.branch.text if pane.branch is not None else "")
    screen.notify(f"Branch {pane.index + 1} is on the clipboard.")


@command(THIS_BRANCH, "Bookmark this branch", "b")
def bookmark(screen: WriteScreen, pane: BranchPane) -> None:
    """Bookmark the branch, to find it later; again to remove the bookmark."""
    story = screen.session.story
    if (node := status.node_of(screen.session, pane.index)) is not None:
        story.mark(node, bookmark=not story.node(node).bookmark)


_STEPS: tuple[tuple[Unit, int], ...] = (("sentence", 1), ("word", 1), ("paragraph", 1), ("word", -1))


@command(PART, "Take a part", "d,w,f,a", numbered=True, foot="part")
def take(screen: WriteScreen, pane: BranchPane, number: int) -> None:
    """Mark a sentence, a word or a paragraph more, or a word less; enter picks the branch up to there."""
    pane.move_take(*_STEPS[number - 1])


@command(ALL, "Write new branches", anywhere="ctrl+n", writes=True, foot="write")
def generate(screen: WriteScreen) -> None:
    """Write N branches from the end of the story; with the cursor in its middle, text for that place."""
    if screen.editor.has_focus and screen.editor.text[screen.editor.cursor :].strip():
        screen.run("write_here")
        return
    screen.be_loud()
    screen.session.generate()


@command(ALL, "Write from the cursor", anywhere="ctrl+b", writes=True)
def write_from(screen: WriteScreen) -> None:
    """Write branches from the cursor; the text after it becomes another branch."""
    place = screen.editor.cursor
    rest = words_of(screen.editor.text[place:])
    screen.session.write_from(place)
    screen.show_story()
    if rest:
        way = screen.app.way_to("undo")
        screen.notify(f"{counted(rest, 'word')} behind the cursor became a branch. {way} puts them back.")
    else:
        screen.notify("The story ends here already: branches go on from its end.")


@command(ALL, "Step back", anywhere="escape", foot="stop")
def back(screen: WriteScreen) -> None:
    """On a branch, remove the taking cursor; else stop an export, import, load or fetch, or all branches."""
    # It never moves the focus: keys pressed next would be words where commands were meant, or commands
    # where words were.
    pane = screen.grid.pane if screen.on_branch else None
    if screen.helps:
        screen.action_help()
    elif screen.quiet:
        screen.be_loud()
    elif pane is not None and pane.take is not None:
        pane.take_to(0)
    elif screen.app.transfers.cancel():
        return  # the status line reports it
    elif (work := screen.session.long_work) is not None:
        work.stop()
    elif screen.session.cancel_load():
        return
    elif screen.writing:
        screen.session.stop_all()
    elif pane is not None and not screen.app.fetch.cancel():
        screen.notify("Nothing is being written.")


@command(ALL, "A branch more", "plus,equals_sign")
def more(screen: WriteScreen) -> None:
    """Add a branch, even while others are running."""
    session = screen.session
    session.n += 1
    if session.round is not None and screen.grid.panes:
        session.add_branches(1)
    screen.app.knobs.keep()


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
    screen.app.knobs.keep()
