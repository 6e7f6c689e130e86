"""How branches come to differ, in which order they stand, and what none of them shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.engine.exploring import Opening
from srbwriter.engine.types import Together
from srbwriter.session.exploring import probability_words
from srbwriter.session.variety import BY_PROBABILITY, ORDERS
from srbwriter.tui import status
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.screens.picker import Choice, Picker
from srbwriter.tui.welcome import writes

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


_SIBLINGS: dict[Together, tuple[str, str]] = {
    "independent": (
        "each by itself",
        "Each branch draws its words alone. Likely openings come several times.",
    ),
    "distinct": (
        "no two begin alike",
        "No two branches begin with the same word, as long as the filters leave another. Where they leave "
        "one only, branches part at the next.",
    ),
    "stratified": (
        "spread evenly over what is likely",
        "Branches are spread evenly over all that is likely: each word comes as often as the model finds it "
        "likely, no more and no less, and each branch alone is a plain sample.",
    ),
}
_REPULSION = 2.0  # another one is turned in the knobs


@command(INSTRUMENTS, "How branches differ", "tilde")
def variety(screen: WriteScreen) -> None:
    """How new branches are drawn: each by itself, no two alike, or evenly; and whether they repel."""
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
        why = session.lacks("siblings") if siblings != "independent" or repulsion else ""
        screen.notify(why or f"New branches are drawn so: {_SIBLINGS[siblings][0]}.")

    now = session.variety.siblings, session.variety.repulsion
    screen.app.push_screen(Picker("How new branches differ", choices, at=now), chosen)


def _repels(strength: float) -> str:
    words = "\n\nWhat one branch takes is made less likely for the others at the same place, until they part."
    return words if strength else ""


@command(INSTRUMENTS, "Order of the branches", "colon")
def order(screen: WriteScreen) -> None:
    """Let ended branches stand as drawn, by difference, probability or length, or as judged."""
    choices = [Choice(name, name, about) for name, (about, _) in ORDERS.items()]

    def chosen(name: str | None) -> None:
        why = screen.session.lacks("prompt_logprobs") if name == BY_PROBABILITY else ""
        if why:
            screen.notify(why, severity="warning")
        elif name is not None:
            screen.put_in_order(name)

    screen.app.push_screen(Picker("Order of the branches", choices, at=screen.order), chosen)


@command(INSTRUMENTS, "What no branch shows", "x", hint="not shown", vim="Y")
@writes
def unexplored(screen: WriteScreen) -> None:
    """What could also have followed, and how likely it is; choose one, and a branch begins with it."""
    session = screen.session
    if why := session.lacks("next_logprobs"):
        screen.notify(why, severity="warning")
        return
    fork = session.exploring.fork()
    if fork is None:
        screen.notify("What could follow is not known yet; a moment, or ctrl+n first.")
        return
    choices = [Choice(one, _shown(one), _told(one)) for one in (*fork.unexplored, *_begun(fork.openings))]

    def chosen(opening: Opening | None) -> None:
        if opening is not None and screen.guarded(lambda: session.exploring.open(opening)):
            screen.flush()
            screen.notify(
                f"A branch begins with {status.opening_words(opening)}. Its head says that it was forced."
            )

    heading = f"The branches show {probability_words(fork.covered)} of what could follow"
    screen.app.push_screen(
        Picker(heading, choices, foot="enter opens a branch with it · esc goes back"), chosen
    )


def _begun(openings: Sequence[Opening]) -> list[Opening]:
    return [opening for opening in openings if opening.branches]


def _shown(opening: Opening) -> str:
    return f"{status.opening_words(opening):<14} {probability_words(opening.probability):>6}"


def _told(opening: Opening) -> str:
    numbers = ", ".join(str(index + 1) for index in opening.branches)
    return f"branch {numbers}" if numbers else ""


@command(INSTRUMENTS, "Explore what is likely", "circumflex_accent")
@writes
def explore(screen: WriteScreen) -> None:
    """Follow the ways on that are likely enough; they become branches that show their probability."""
    screen.session.exploring.begin()
    screen.pump.wake()
    screen.flush_slowly()
