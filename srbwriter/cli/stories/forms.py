"""Formats by their names, for the commands that take one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from srbwriter.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from srbwriter.story.formats import Format


def listing(forms: Sequence[Format]) -> str:
    """A line for each format: its name, its extension, what it is."""
    width = max(len(form.name) for form in forms) + 2
    return "\n".join(f"{form.name:<{width}}{form.extension:<10}{form.label}" for form in forms)


def named(name: str, forms: Sequence[Format], verb: str) -> Format:
    """The format called ``name``. Raises Failure; ``verb`` is what it is wanted for."""
    for form in forms:
        if form.name == name:
            return form
    listed = ", ".join(form.name for form in forms)
    raise Failure(f"no format to {verb} is called {name}; there are {listed}", Exit.USAGE)
