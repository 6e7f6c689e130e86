"""Opening one screen from another, with types."""

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
    app = cast("App[None]", above.app)  # pyright: ignore[reportUnknownMemberType]
    app.push_screen(screen, then)
