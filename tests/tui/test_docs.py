"""The documentation says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.tui import themes
from srbwriter.tui.commands import COMMANDS
from srbwriter.tui.key_names import shown_name
from tools import pages

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_of_keys_is_the_table() -> None:
    text = (DOCS / "keys.md").read_text("utf-8")
    assert pages.keys() in text and pages.keys_of_screens() in text, "run: python -m tools.pages"


def test_every_shipped_theme_is_named() -> None:
    text = (DOCS / "themes.md").read_text("utf-8")
    shipped = [file.stem for file in paths.asset_dir("themes").glob("*.toml")]
    assert not [name for name in shipped if name not in text]


def test_the_example_theme_names_what_a_theme_has() -> None:
    text = (DOCS / "themes.md").read_text("utf-8")
    assert not [name for name in themes.COLOURS if not re.search(rf"^{name} = ", text, re.M)]


def test_every_picture_exists() -> None:
    for page in DOCS.glob("*.md"):
        for picture in re.findall(r"\]\((images/[^)]+)\)", page.read_text("utf-8")):
            assert (DOCS / picture).exists(), picture


KEYS = {
    "first-story.md": """
        ctrl+z undo, ctrl+n generate, w take_word, d take_sentence, f take_paragraph, W untake_word, D
        untake_sentence, F untake_paragraph, enter pick, r reroll, k kill, i type_into, tab switch, F1
        help, ctrl+p palette, F3 tree, N author_note, ctrl+q quit, E export
    """,
    "better-model.md": """
        m model, - fewer
    """,
    "branch-from-anywhere.md": """
        ctrl+z undo, H history, F3 tree, tab switch, ctrl+b write_from, \\ split, ctrl+g leader, w
        take_word, . tokens, F6 tokens, x unexplored
    """,
    "files.md": """
        @ restore, ! snapshot
    """,
    "instruments.md": """
        F5 look_ahead, ~ variety, x unexplored, ^ explore, ; judge, F7 judge, ( rubric, ) bans, .
        tokens, F6 tokens, # colour_tokens, : order, e extend, F2 knobs
    """,
    "terminal.md": """
        ctrl+o stories, * new_story, " rename_story, & duplicate_story, ! snapshot, @ restore, t
        branch_knobs, end follow, ctrl+f find, # colour_tokens, F4 own_editor, $ spelling, % own_word, F3
        tree, F2 knobs, m model, M memory, N author_note, O lore, F8 context, I import, E export, A
        properties, ctrl+l layout, } more_story, { less_story, F9 single, ctrl+r read, ctrl+t quiet, F10
        settings, a switch, ' jump, ctrl+g leader
    """,
    "trouble.md": """
        F12 log, ctrl+q quit, ctrl+z undo, F3 tree, @ restore, F8 context, m model
    """,
    "word.md": """
        A properties, M memory, N author_note, O lore, F8 context
    """,
    "../README.md": """
        r reroll, w take_word, d take_sentence, f take_paragraph, k kill, ctrl+z undo, ctrl+p palette,
        F1 help, ctrl+q quit, m model
    """,
}
"""The keys that a page names, each with the command that it runs."""


@pytest.mark.parametrize("page", KEYS)
def test_keys_in_the_pages_run_those_commands(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    for pair in " ".join(KEYS[page].split()).split(", "):
        key, name = pair.split()
        command = COMMANDS[name]
        keys = [shown_name(one) for one in f"{command.keys},{command.anywhere}".split(",") if one]
        assert re.sub(r"^F(?=\d)", "f", key) in keys, (key, name, keys)
        assert f"`{key}`" in text, key
