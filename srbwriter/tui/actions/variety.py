"""Commands on variety: how branches differ, their order, and openings that no branch shows."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from srbwriter.session.openings import Word, Words, find_words, open_word, probability_words
from srbwriter.session.ordering import BY_PROBABILITY, ORDERS
from srbwriter.session.tokens import shown
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


@command(INSTRUMENTS, "Order of the branches")
def order(screen: WriteScreen) -> None:
    """Sort ended branches: as written, or the likeliest words first."""
    choices = [Choice(name, name, about) for name, about in ORDERS.items()]

    def chosen(name: str) -> None:
        why = screen.session.capabilities.reason_for("prompt_logprobs") if name == BY_PROBABILITY else ""
        if why:
            screen.notify(why, severity="warning")
        else:
            screen.grid.sort_by(name)

    screen.ask(Picker("Order of the branches", choices, at=screen.grid.sorting), chosen)


_LOOKS = 0.05  # seconds between two looks at what the model says


@command(INSTRUMENTS, "Words that no branch begins with", writes=True)
def unexplored(screen: WriteScreen) -> None:
    """List likely first words that no branch begins with; enter starts a branch with one."""
    if why := screen.session.capabilities.reason_for("next_logprobs"):
        screen.notify(why, severity="warning")
    elif screen.session.round is None:
        screen.notify("There are no branches yet. Write some first.")
    else:
        _list_when_known(screen, screen.app.focused, find_words(screen.session))


def _list_when_known(screen: WriteScreen, focused: object, finding: Future[Words]) -> None:
    """List the words as soon as they are known, unless the writer has gone elsewhere meanwhile."""
    if not screen.on_top or screen.app.focused is not focused:
        return
    if not finding.done():
        screen.editor.set_timer(_LOOKS, lambda: _list_when_known(screen, focused, finding))
    elif (error := finding.exception()) is not None:
        screen.notify(f"The model has not rated the next words: {error}", severity="error")
    else:
        _list_words(screen, finding.result())


def _list_words(screen: WriteScreen, found: Words) -> None:
    def chosen(word: Word) -> None:
        open_word(screen.session, word)
        screen.notify(f'A branch starts with "{_text(word)}" (marked "chosen by you").')

    picker = Picker(
        f"These branches cover {probability_words(found.covered)} of likely beginnings",
        [
            Choice(word, f"{_text(word):<14} {probability_words(word.probability):>6}", _branch_numbers(word))
            for word in found.words
        ],
        foot="enter starts a branch with this word · esc goes back",
    )
    screen.ask(picker, chosen)


def _text(word: Word) -> str:
    return shown(word.raw, "the end").strip() or "␣"


def _branch_numbers(word: Word) -> str:
    numbers = ", ".join(str(index + 1) for index in word.branches)
    return f"branch {numbers}" if numbers else ""
