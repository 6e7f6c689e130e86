"""Commands for the model, for the text that it gets besides the story, and for instruments on branches."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from srbwriter.config import keys
from srbwriter.session.ahead import MODES, LookAhead
from srbwriter.session.bans import as_sheet, ban_phrases, sheet_lines
from srbwriter.session.rewriting import Passage, passage_at, place_at
from srbwriter.session.steering import Steering
from srbwriter.session.wishes import ask_wish
from srbwriter.story.model import counted
from srbwriter.tui import options
from srbwriter.tui.commands import INSTRUMENTS, THIS_BRANCH, command
from srbwriter.tui.dialogs.ask import Ask, Sheet
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.dialogs.rewriting import RewriteView, wish_form
from srbwriter.tui.dialogs.tokens import TokenView
from srbwriter.tui.story.context_view import ContextView
from srbwriter.tui.story.side_panel import LORE, MEMORY, NOTE
from srbwriter.tui.write.colours import AUTHOR, NONE, SURPRISAL

if TYPE_CHECKING:
    from srbwriter.tui.write.branch_pane import BranchPane
    from srbwriter.tui.write.screen import WriteScreen

KNOBS = "The model"


@command(KNOBS, "Memory", writes=True)
def memory(screen: WriteScreen) -> None:
    """Edit the text that the model reads before the story."""
    screen.open_panel(MEMORY)


@command(KNOBS, "Author's note", writes=True)
def author_note(screen: WriteScreen) -> None:
    """Edit the text that the model reads near the end of the story."""
    screen.open_panel(NOTE)


@command(KNOBS, "Lorebook", writes=True)
def lore(screen: WriteScreen) -> None:
    """Edit the entries that the model reads when one of their keys occurs in the story."""
    screen.open_panel(LORE)


@command(KNOBS, "What the model sees", anywhere="f8")
def context(screen: WriteScreen) -> None:
    """Show the context by source, in tokens; edit the request to an instruction model."""
    screen.session.keep()
    screen.app.push_screen(ContextView(screen.session))


@command(KNOBS, "Change the model")
async def model(screen: WriteScreen) -> None:
    """Choose a model, fetch a recommended one, or retry one that failed to load; the story stays open."""
    from srbwriter.tui.dialogs.model import choose_model

    await choose_model(screen)


_AHEAD = {
    "off": "Next branches are written only after a pick.",
    "focused": "While you read, the branches after the chosen one are written; its head says so.",
    "all": "While you read, the branches after each one are written; heads say which are ready.",
}


@command(INSTRUMENTS, "Next branches while you read", anywhere="f5")
def look_ahead(screen: WriteScreen) -> None:
    """Write the next branches before you pick: after the chosen branch, after all of them, or not at all."""
    preferences = screen.app.preferences
    mode = MODES[(MODES.index(preferences[keys.LOOK_AHEAD]) + 1) % len(MODES)]
    note = preferences.put(keys.LOOK_AHEAD, mode) or ""
    screen.app.apply_preferences()
    why_not = LookAhead.of(screen.session).why_not
    screen.notify(f"{f'Not now: {why_not}.' if why_not else _AHEAD[mode]} {note}".rstrip())


@command(INSTRUMENTS, "Token by token", anywhere="f6", writes=True)
def tokens(screen: WriteScreen) -> None:
    """Step through a branch or the story by token: see alternatives, start a branch there, ban a word."""
    if screen.editor.has_focus:
        screen.app.push_screen(TokenView(screen, None, screen.editor.cursor))
    elif (pane := screen.grid.pane) is None or pane.branch is None:
        screen.notify("There is no branch here yet.")
    else:
        char = len(pane.branch.text) if pane.follow else pane.first_in_view + 1
        screen.app.push_screen(TokenView(screen, pane.index, pane.take or char))


_COLOURS = (
    Choice(NONE, "no colours", "all words look alike"),
    Choice(AUTHOR, "who wrote what", "the model, edited by you, imported, yours"),
    Choice(SURPRISAL, "unlikely words", "those that the model gave less than 1.6 %"),
)


@command(INSTRUMENTS, "Colour words")
async def colour_tokens(screen: WriteScreen) -> None:
    """Colour the story by who wrote it, or those words of branches that the model found unlikely."""
    app = screen.app
    picker = Picker("Colours of words", _COLOURS, at=app.preferences[options.COLOUR_TOKENS])
    if (mode := await app.ask(picker)) is not None:
        screen.session.keep()  # typing must be in the story before its authors are shown
        app.change(options.COLOUR_TOKENS, mode)


@command(INSTRUMENTS, "Banned phrases", writes=True)
def bans(screen: WriteScreen) -> None:
    """Edit the phrases that branches of this story must not contain; a list of clichés is suggested."""
    session = screen.session
    before = session.sampling.banned_phrases

    def take(text: str) -> bool:
        if why := session.capabilities.reason_for("banned_phrases"):
            screen.notify(why, severity="error")
            return False
        phrases = sheet_lines(text)
        done = screen.guarded(lambda: (ban_phrases(session, phrases), screen.app.knobs.keep()))
        if done:
            screen.notify(
                f"{counted(len(phrases), 'phrase')} banned." if phrases else "No phrase is banned now."
            )
        return done

    banned = f"{counted(len(before), 'phrase')} banned."
    state = banned if before else "None banned yet: this is a suggested list."
    about = f"A branch that writes one of these goes back and writes something else. One per line. {state}"
    draft = session.draft("bans")
    screen.app.push_screen(Sheet("Banned phrases", as_sheet(before), about, take, draft, "bans them"))


@command(INSTRUMENTS, "Another sentence here", writes=True)
def rewrite(screen: WriteScreen) -> None:
    """Write other words for the selected passage, or the sentence at the cursor; pick one to replace it."""
    _show(screen, passage_at(screen.editor.text, *screen.editor.selection))


@command(INSTRUMENTS, "Write here", writes=True)
def write_here(screen: WriteScreen) -> None:
    """Write text for the place of the cursor; pick one to put it there. What follows stays."""
    _show(screen, place_at(screen.editor.text, screen.editor.cursor))


def _show(screen: WriteScreen, passage: Passage) -> None:
    screen.session.may_write()
    screen.app.push_screen(RewriteView(screen, passage))


@command(INSTRUMENTS, "Ask for a change", writes=True)
def ask_change(screen: WriteScreen) -> None:
    """Write new branches that follow a wish in one line; it applies to these branches only."""
    screen.be_loud()
    _ask_wish(screen, "Change in new branches")


@command(THIS_BRANCH, "Ask for a change in this branch", writes=True)
def ask_change_here(screen: WriteScreen, pane: BranchPane) -> None:
    """Write only this branch again, with a wish in one line; the others continue."""
    _ask_wish(screen, f"Change in branch {pane.index + 1}", pane.index)


def _ask_wish(screen: WriteScreen, question: str, index: int | None = None) -> None:
    session = screen.session
    take: Callable[[str], bool] = lambda wish: screen.guarded(lambda: ask_wish(session, wish, index))  # noqa: E731
    screen.app.push_screen(wish_form(session, question, take))


@command(THIS_BRANCH, "Steer this branch")
def steer(screen: WriteScreen, pane: BranchPane) -> None:
    """Write a note that only this branch follows from now on."""
    session, index, branch = screen.session, pane.index, pane.branch
    steering = Steering.of(session)

    def put(note: str) -> None:
        steering.put_note(index, note)
        follows = f"follows its note{'' if branch is not None and branch.live else ' when it is extended'}"
        screen.notify(f"Branch {index + 1} {follows if note.strip() else 'has no note'}.")

    def take(note: str) -> bool:
        return screen.guarded(lambda: put(note))

    question = f"Note for branch {index + 1} alone; leave it empty for none"
    draft = session.draft(f"note for branch {index + 1}")
    screen.app.push_screen(Ask(question, steering.note(index), take, draft))


async def answer_of(screen: WriteScreen, asked: Future[str]) -> str:
    """Return the model's answer once a dialog may open: the writer neither types nor is in another one."""
    await screen.app.until(lambda: asked.done() and screen.on_top and screen.app.writer_rests)
    return asked.result()
