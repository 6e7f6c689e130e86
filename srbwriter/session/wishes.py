"""Wishes: a change in one line ("shorter", "more rain") for one round of branches, or for one branch.

A wish is near the end of the prompt of that round only, so that the text before it stays cached. It is kept
in the nodes of the branches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .session import Session

MOST_CHARS = 500


def read_wish(text: str) -> str:
    """Return a wish as one line. Raises ValueError for none."""
    wish = " ".join(text.split()).rstrip(".")
    if not wish:
        raise ValueError("Type what should change, for example: shorter, from her view, more rain.")
    if len(wish) > MOST_CHARS:
        raise ValueError(f"A wish may have {MOST_CHARS} characters; this one has {len(wish)}.")
    return wish


def ask_wish(session: Session, wish: str, index: int | None = None) -> None:
    """Request branches that follow ``wish``; with ``index`` write only that branch again.

    Its text so far stays as an earlier version, and the others continue. Raises ValueError for no wish, and
    EngineError or StoryError as :meth:`Session.generate` does.
    """
    session.may_write()
    wish = read_wish(wish)
    if index is None:
        session.generate(wish=wish)
    else:
        session.steering.reroll_with_wish(index, wish)
