"""How branches come to differ, in which order they stand, and what none of them shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.engine.types import Together
from srbwriter.session.variety import ORDERS
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.screens.picker import Choice, Picker

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
    """Let ended branches stand as drawn, by difference, by length, as judged; each keeps its number."""
    choices = [Choice(name, name, about) for name, (about, _) in ORDERS.items()]

    def chosen(name: str | None) -> None:
        if name is not None:
            screen.put_in_order(name)

    screen.app.push_screen(Picker("Order of the branches", choices, at=screen.order), chosen)
