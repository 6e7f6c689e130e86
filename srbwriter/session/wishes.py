"""Wishes: a change in one line ("shorter", "more rain") for one round of branches, or for one branch.

A wish is near the end of the prompt of that round only, so that the text before it stays cached. It is kept
in the nodes of the branches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.story import Story
from srbwriter.story.model import as_list

if TYPE_CHECKING:
    from .session import Session

KEPT = "wishes"
"""The name of the story value with earlier wishes, the last one at the end."""

MOST_KEPT, MOST_CHARS = 50, 500


def earlier_wishes(story: Story) -> list[str]:
    """Return the earlier wishes of the story, each once, the last one at the end."""
    return [wish for wish in as_list(story.value(KEPT)) if isinstance(wish, str)]


def remember_wish(story: Story, text: str) -> str:
    """Keep a wish among the earlier ones, and return it as one line. Raises ValueError for none."""
    wish = " ".join(text.split()).rstrip(".")
    if not wish:
        raise ValueError("Type what should change, for example: shorter, from her view, more rain.")
    if len(wish) > MOST_CHARS:
        raise ValueError(f"A wish may have {MOST_CHARS} characters; this one has {len(wish)}.")
    story.put_value(KEPT, [*(one for one in earlier_wishes(story) if one != wish), wish][-MOST_KEPT:])
    return wish


def ask_wish(session: Session, wish: str, index: int | None = None) -> None:
    """Request branches that follow ``wish``; with ``index`` write only that branch again.

    Its text so far stays as an earlier version, and the others continue. Raises ValueError for no wish, and
    EngineError or StoryError as :meth:`Session.generate` does.
    """
    session.may_write()
    wish = remember_wish(session.story, wish)
    if index is None:
        session.generate(wish=wish)
    else:
        session.steering.reroll_with_wish(index, wish)
