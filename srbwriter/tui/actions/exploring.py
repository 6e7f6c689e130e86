"""Commands on variety: how branches differ, their order, and openings that no branch shows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.engine.exploring import Fork, Opening
from srbwriter.engine.types import Together
from srbwriter.session.exploring import Explorer, Word, probability_words
from srbwriter.session.ordering import BY_PROBABILITY, ORDERS
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.write import status

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer


_SIBLINGS: dict[Together, tuple[str, str]] = {
    "independent": (
        "each by itself",
        "Each branch is written on its own. Several may begin with the same likely word.",
    ),
    "distinct": (
        "no two begin alike",
        "No two branches begin with the same word, as long as another is likely enough. If there is none, "
        "branches differ from the next word on.",
    ),
    "stratified": (
        "spread evenly over what is likely",
        "Branches are spread evenly over the likely first words: a word that is twice as likely begins twice "
        "as many branches.",
    ),
}
_REPULSION = 2.0  # the settings for writing (F2) offer other strengths


@command(INSTRUMENTS, "How branches differ")
def variety(screen: Writer) -> None:
    """Choose how much new branches differ from one another."""
    session = screen.session
    choices = [
        Choice(
            (name, strength), about + ", and pushed apart" * bool(strength), name, preview + _repels(strength)
        )
        for strength in (0.0, _REPULSION)
        for name, (about, preview) in _SIBLINGS.items()
    ]

    def chosen(value: tuple[Together, float]) -> None:
        siblings, repulsion = value
        session.variety = replace(session.variety, siblings=siblings, repulsion=repulsion)
        screen.app.knobs.keep()
        why = session.capabilities.reason_for("siblings") if siblings != "independent" or repulsion else ""
        screen.notify(why or f"New branches: {_SIBLINGS[siblings][0]}.")

    now = session.variety.siblings, session.variety.repulsion
    screen.ask(Picker("How new branches differ", choices, at=now), chosen)


def _repels(strength: float) -> str:
    words = "\n\nA word that one branch chose becomes less likely for the others at the same position."
    return words if strength else ""


@command(INSTRUMENTS, "Order of the branches")
def order(screen: Writer) -> None:
    """Sort ended branches: as written, or by difference, likelihood, length or score."""
    choices = [Choice(name, name, about) for name, (about, _) in ORDERS.items()]

    def chosen(name: str) -> None:
        why = screen.session.capabilities.reason_for("prompt_logprobs") if name == BY_PROBABILITY else ""
        if why:
            screen.notify(why, severity="warning")
        else:
            screen.grid.sort_by(name)

    screen.ask(Picker("Order of the branches", choices, at=screen.grid.sorting), chosen)


_LEAST, _MOST = 0.001, 20  # of the words in the list: their probability, and how many
_LOOKS, _PATIENCE = 0.05, 3.0  # seconds between two looks at what the model says, and in all


@command(INSTRUMENTS, "Words that no branch begins with", letters="x", vim="Y", writes=True)
def unexplored(screen: Writer) -> None:
    """List likely first words that no branch begins with; enter starts a branch with one."""
    if why := screen.session.capabilities.reason_for("next_logprobs"):
        screen.notify(why, severity="warning")
    elif screen.session.round is None:
        screen.notify("There are no branches yet. Write some first.")
    else:
        _list_when_known(screen, screen.app.focused, time.monotonic() + _PATIENCE)


def _list_when_known(screen: Writer, focused: object, until: float) -> None:
    """List the words as soon as the model has rated them, unless the writer has gone elsewhere meanwhile."""
    fork = Explorer.of(screen.session).fork()
    if not screen.on_top or screen.app.focused is not focused:
        return
    if fork is not None:
        _list_words(screen, fork)
    elif time.monotonic() < until:
        screen.editor.set_timer(_LOOKS, lambda: _list_when_known(screen, focused, until))
    else:
        screen.notify("The model has not rated the next words yet. Try again when branches have words.")


def _list_words(screen: Writer, fork: Fork) -> None:
    explorer = Explorer.of(screen.session)
    others = [one for one in fork.unexplored if one.probability >= _LEAST][:_MOST]
    listed = [*others, *_with_branches(fork.openings)]
    words: dict[int, Word] = {}

    def choices() -> list[Choice]:
        return [Choice(one, _opening_label(one, words), _branch_numbers(one)) for one in listed]

    def chosen(opening: Opening) -> None:
        rest = words[opening.token].rest if opening.token in words else ()
        explorer.open(opening, rest)
        screen.notify(f'A branch starts with "{_word(opening, words)}" (marked "chosen by you").')

    picker = Picker(
        f"These branches cover {probability_words(fork.covered)} of likely beginnings",
        choices(),
        foot="enter starts a branch with this word · esc goes back",
    )
    screen.ask(picker, chosen)
    completed = explorer.complete(listed)

    def show_words() -> None:
        if not completed.done():
            picker.set_timer(_LOOKS, show_words)
        elif completed.exception() is None:
            words.update(completed.result())
            picker.replace(choices())

    picker.call_later(show_words)


def _with_branches(openings: Sequence[Opening]) -> list[Opening]:
    return [opening for opening in openings if opening.branches]


def _word(opening: Opening, words: Mapping[int, Word]) -> str:
    """Return the word that an opening begins; only its token until the word is known."""
    word = words.get(opening.token)
    return status.opening_words(opening if word is None else opening._replace(raw=word.raw))


def _opening_label(opening: Opening, words: Mapping[int, Word]) -> str:
    return f"{_word(opening, words):<14} {probability_words(opening.probability):>6}"


def _branch_numbers(opening: Opening) -> str:
    numbers = ", ".join(str(index + 1) for index in opening.branches)
    return f"branch {numbers}" if numbers else ""


@command(INSTRUMENTS, "Likeliest continuations", writes=True)
def explore(screen: Writer) -> None:
    """Show the likeliest continuations as branches, with how likely each is."""
    Explorer.of(screen.session).begin()
