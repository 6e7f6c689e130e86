"""Wishes: a change in one line ("shorter", "more rain") for one round of branches, or for one branch.

A wish is near the end of the prompt of that round only, so that the text before it stays cached. It is kept
in the nodes of the branches. Imports no screen.
"""

from __future__ import annotations

from typing import ClassVar

from srbwriter.story.model import as_list

from .instrument import Instrument

KEPT = "wishes"
"""The name of the story value with earlier wishes, the last one at the end."""

MOST_KEPT, MOST_CHARS = 50, 500


def read_wish(text: str) -> str:
    """Return a wish as one line without a full stop at its end. Raises ValueError for none, or a long one."""
    wish = " ".join(text.split()).rstrip(".")
    if not wish:
        raise ValueError("Type what should change, for example: shorter, from her view, more rain.")
    if len(wish) > MOST_CHARS:
        raise ValueError(f"A wish may have {MOST_CHARS} characters; this one has {len(wish)}.")
    return wish


class Wishes(Instrument):
    """Asks for branches that follow a wish, and remembers the wishes of the story."""

    name: ClassVar[str] = "wishes"

    @property
    def earlier(self) -> list[str]:
        """The earlier wishes of the story, each once, the last one at the end."""
        return [wish for wish in as_list(self._desk.story.value(KEPT)) if isinstance(wish, str)]

    def remember(self, wish: str) -> str:
        """Keep a wish among the earlier ones, and return it as one line. Raises ValueError for no wish."""
        desk, wish = self._desk, read_wish(wish)
        kept = [*(one for one in self.earlier if one != wish), wish][-MOST_KEPT:]
        desk.together(lambda: desk.story.put_value(KEPT, kept))
        return wish

    def ask(self, wish: str, index: int | None = None) -> None:
        """Request branches that follow ``wish``; with ``index`` write only that branch again.

        Its text so far stays as an earlier version, and the others continue. Raises ValueError for no wish,
        and EngineError or StoryError as :meth:`Session.generate` does.
        """
        desk = self._desk
        desk.may_write()
        wish = self.remember(wish)
        if index is None:
            desk.generate(wish=wish)
        else:
            desk.reroll_with_wish(index, wish)
