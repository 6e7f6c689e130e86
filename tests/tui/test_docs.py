"""The documentation says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.tui import themes
from srbwriter.tui.commands import COMMANDS
from tools import pages
from tools.pages import shown_name

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_of_keys_is_the_table() -> None:
    text = pages.renewed((DOCS / "keys.md").read_text("utf-8"))
    assert pages.keys_to_know() in text and pages.keys() in text


def test_every_shipped_theme_is_named() -> None:
    text = (DOCS / "themes.md").read_text("utf-8")
    shipped = [file.stem for file in paths.asset_dir("themes").glob("*.toml")]
    assert not [name for name in shipped if name not in text]


def test_the_example_theme_names_what_a_theme_has() -> None:
    text = (DOCS / "themes.md").read_text("utf-8")
    assert not [name for name in themes.COLOURS if not re.search(rf"^{name} = ", text, re.M)]


KEYS = {
    "first-story.md": """
        ctrl+z undo, ctrl+n generate, w take, d take, f take, a take, enter pick, r reroll, k kill,
        tab switch, F1 help, ctrl+g menu, F3 tree, ctrl+q quit
    """,
    "better-model.md": """
        ctrl+g menu, - fewer
    """,
    "files.md": """
        ctrl+g menu
    """,
    "instruments.md": """
        ctrl+g menu, F5 look_ahead, F6 tokens, F2 settings
    """,
    "terminal.md": """
        tab switch, ctrl+b write_from, F6 tokens, ctrl+o stories, end scroll, ctrl+f find, F3 tree,
        F2 settings, F8 context, ctrl+l layout, ctrl+t quiet
    """,
    "themes.md": """
        ctrl+g menu
    """,
    "trouble.md": """
        ctrl+q quit, ctrl+z undo, F3 tree, ctrl+g menu, F8 context
    """,
    "../README.md": """
        r reroll, w take, d take, f take, k kill, ctrl+z undo, ctrl+g menu, F1 help, ctrl+q quit
    """,
}
"""The keys that a page names, each with the command that it runs."""


TITLES = {
    "first-story.md": ["export"],
    "better-model.md": ["model"],
    "files.md": ["restore", "snapshot"],
    "instruments.md": [
        "bans", "colour_tokens",
    ],
    "terminal.md": [
        "restore", "openings", "replace", "model", "import", "export",
    ],
    "themes.md": ["theme"],
    "trouble.md": ["model", "restore"],
    "../README.md": ["model"],
}  # fmt: skip
"""Commands that a page calls by their title, as the menu does."""


@pytest.mark.parametrize("page", TITLES)
def test_commands_in_the_pages_have_these_titles(page: str) -> None:
    text = " ".join((DOCS / page).read_text("utf-8").split())
    missing = [name for name in TITLES[page] if f"*{COMMANDS[name].title}*" not in text]
    assert not missing


@pytest.mark.parametrize("page", KEYS)
def test_keys_in_the_pages_run_those_commands(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    for pair in " ".join(KEYS[page].split()).split(", "):
        key, name = pair.split()
        command = COMMANDS[name]
        keys = [shown_name(one) for one in f"{command.keys},{command.anywhere}".split(",") if one]
        assert re.sub(r"^F(?=\d)", "f", key) in keys, (key, name, keys)
        assert f"`{key}`" in text, key
