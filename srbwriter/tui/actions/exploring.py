"""Commands on variety: how branches differ, their order, and openings that no branch shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.engine.exploring import Opening
from srbwriter.engine.types import Together
from srbwriter.session.exploring import Explorer, probability_words
from srbwriter.session.ordering import BY_PROBABILITY, ORDERS
from srbwriter.tui import status
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.screens.picker import Choice, Picker
from srbwriter.tui.welcome import writes

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


_SIBLINGS: dict[Together, tuple[str, str]] = {
    "independent": (
        "each by itself",
        "Each branch is sampled on its own. Likely openings can occur several times.",
    ),
    "distinct": (
        "no two begin alike",
        "No two branches begin with the same word, as long as the filters leave another. If they leave only "
        "one, branches differ from the next word on.",
    ),
    "stratified": (
        "spread evenly over what is likely",
        "Branches are spread evenly over the likely words: each word occurs as often as its probability "
        "says, and each single branch is an ordinary sample.",
    ),
}
_REPULSION = 2.0  # the knobs offer other strengths


@command(INSTRUMENTS, "How branches differ")
def variety(screen: WriteScreen) -> None:
    """Choose how new branches are sampled: independently, all different or evenly; with repulsion or not."""
    session = screen.session
    choices = [
        Choice((name, strength), name + ", repelling" * bool(strength), about, preview + _repels(strength))
        for strength in (0.0, _REPULSION)
        for name, (about, preview) in _SIBLINGS.items()
    ]

    def chosen(value: tuple[Together, float] | None) -> None:
        if value is None:
            return
        siblings, repulsion = value
        session.variety = replace(session.variety, siblings=siblings, repulsion=repulsion)
        screen.guarded(screen.app.knobs.keep)
        why = session.capabilities.reason_for("siblings") if siblings != "independent" or repulsion else ""
        screen.notify(why or f"New branches: {_SIBLINGS[siblings][0]}.")

    now = session.variety.siblings, session.variety.repulsion
    screen.app.push_screen(Picker("How new branches differ", choices, at=now), chosen)


def _repels(strength: float) -> str:
    words = "\n\nA word that one branch chose becomes less likely for the others at the same position."
    return words if strength else ""


@command(INSTRUMENTS, "Order of the branches")
def order(screen: WriteScreen) -> None:
    """Sort ended branches: as written, by difference, probability, length or score."""
    choices = [Choice(name, name, about) for name, (about, _) in ORDERS.items()]

    def chosen(name: str | None) -> None:
        why = screen.session.capabilities.reason_for("prompt_logprobs") if name == BY_PROBABILITY else ""
        if why:
            screen.notify(why, severity="warning")
        elif name is not None:
            screen.put_in_order(name)

    screen.app.push_screen(Picker("Order of the branches", choices, at=screen.order), chosen)


@command(INSTRUMENTS, "What no branch shows", letters="x", vim="Y")
@writes
def unexplored(screen: WriteScreen) -> None:
    """List words that could also follow, with their probability; choose one to start a branch with it."""
    session = screen.session
    if why := session.capabilities.reason_for("next_logprobs"):
        screen.notify(why, severity="warning")
        return
    fork = Explorer.of(session).fork()
    if fork is None:
        screen.notify("The model has not rated the next words yet: wait a moment, or press ctrl+n first.")
        return
    choices = [
        Choice(one, _opening_label(one), _branch_numbers(one))
        for one in (*fork.unexplored, *_with_branches(fork.openings))
    ]

    def chosen(opening: Opening | None) -> None:
        if opening is not None and screen.guarded(lambda: Explorer.of(session).open(opening)):
            screen.flush()
            screen.notify(f'A branch starts with {status.opening_words(opening)} (marked "chosen by you").')

    heading = f"The branches show {probability_words(fork.covered)} of what could follow"
    screen.app.push_screen(
        Picker(heading, choices, foot="enter starts a branch with it · esc goes back"), chosen
    )


def _with_branches(openings: Sequence[Opening]) -> list[Opening]:
    return [opening for opening in openings if opening.branches]


def _opening_label(opening: Opening) -> str:
    return f"{status.opening_words(opening):<14} {probability_words(opening.probability):>6}"


def _branch_numbers(opening: Opening) -> str:
    numbers = ", ".join(str(index + 1) for index in opening.branches)
    return f"branch {numbers}" if numbers else ""


@command(INSTRUMENTS, "Explore what is likely")
@writes
def explore(screen: WriteScreen) -> None:
    """Write every continuation above a probability threshold, as branches that show their probability."""
    Explorer.of(screen.session).begin()
    screen.pump.wake()
    screen.flush_slowly()
