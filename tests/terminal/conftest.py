"""Terminals that are closed at the end, whatever happened in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal.terminal import Terminal

NewTerminal = Callable[[str], Terminal]


def pytest_itemcollected(item: pytest.Item) -> None:
    if os.name != "posix":
        item.add_marker(pytest.mark.skip(reason="pseudo-terminals are a thing of POSIX systems"))


@pytest.fixture
def new_terminal(tmp_path: Path) -> Iterator[NewTerminal]:
    """A terminal with folders of its own, below the test's folder."""
    made: list[Terminal] = []

    def new(name: str) -> Terminal:
        made.append(Terminal(tmp_path / f"{name}-{len(made)}"))
        return made[-1]

    yield new
    for terminal in made:
        terminal.close()


@pytest.fixture
def terminal(new_terminal: NewTerminal) -> Terminal:
    return new_terminal("home")
