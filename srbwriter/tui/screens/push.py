"""Opening one screen from another, and leaving it again, with types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from textual.app import App
from textual.screen import Screen

Result = TypeVar("Result")


def push(
    above: Screen[Any], screen: Screen[Result], then: Callable[[Result | None], None] | None = None
) -> None:
    """Show ``screen`` above another; ``then`` is told what it was dismissed with."""
    _app(above).push_screen(screen, then)


def on_top(screen: Screen[Any]) -> bool:
    """Whether keys go to ``screen``; Textual's ``is_current`` is also true of one that is seen behind it."""
    return _app(screen).screen is screen


def leave(screen: Screen[Result], result: Result | None = None) -> None:
    """Dismiss ``screen``, unless it is not the one on top.

    A key that was pressed quickly can reach a screen that has just opened another above it or has just been
    left. Dismissing it then would take away that other screen, and fail the next time.
    """
    if on_top(screen):
        screen.dismiss(result)


def _app(screen: Screen[Any]) -> App[None]:
    return cast("App[None]", screen.app)  # pyright: ignore[reportUnknownMemberType]
