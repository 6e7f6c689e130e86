"""Keys of the writer's own, on every screen, and what is said where they contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from srbwriter.story import Story
from tests.terminal.support import choose, make_story, node_texts, says_saved, text_of, with_branches
from tests.terminal.terminal import (
    CTRL_F,
    ENTER,
    ESC,
    F2,
    F3,
    F5,
    F6,
    F7,
    F10,
    F11,
    RIGHT,
    Terminal,
)


def own_keys(terminal: Terminal, keys: Mapping[str, str]) -> None:
    """Write ``keys`` into the section ``[keys]`` of the settings."""
    lines = [f'{command} = "{key}"' for command, key in keys.items()]
    terminal.configure(more="\n".join(["[keys]", *lines]))


def bookmarked(file: Path) -> int:
    """How many nodes have a bookmark."""
    with Story.open(file, readonly=True) as story:
        return len(list(story.bookmarks()))


def test_the_tree_obeys_keys_of_the_writers_own(terminal: Terminal) -> None:
    own_keys(terminal, {"tree_bookmark": "k", "tree_up": "w", "split_here": "x", "close_dialog": "f7"})
    file = with_branches(terminal)
    terminal.press(b"1", F3)
    expected = ("k bookmark", "F7 goes back", "⏎ go there")
    terminal.wait(lambda screen: all(words in screen for words in expected), "the keys of the tree")
    terminal.press(b"k")  # no movement any more
    terminal.wait(lambda _: bookmarked(file) == 1, "a bookmark")
    terminal.press(b"k", b"w", b"w", b"k")
    terminal.wait(lambda screen: "★ It rained." in screen and bookmarked(file) == 1, "another's bookmark")
    terminal.press(b"s")
    terminal.wait_for("x splits at the cursor")
    before = len(node_texts(file))
    terminal.press(RIGHT, RIGHT, b"x")
    terminal.wait(lambda _: len(node_texts(file)) == before + 1, "a node more")
    terminal.press(ESC)
    terminal.press(F7)
    terminal.wait_for("^q quit")


@pytest.mark.full
def test_knobs_lorebook_settings_help_and_reading_obey_keys_of_the_writers_own(terminal: Terminal) -> None:
    own_keys(
        terminal,
        {
            "knobs_more": "x", "knobs_presets": "home", "lore_new": "c", "settings_change": "c",
            "help_narrow": "n", "read_page": "x", "read": "f6", "keep_sheet": "f6",
        },
    )  # fmt: skip
    with_branches(terminal)
    terminal.press(F2)
    terminal.wait_for("x more")
    terminal.press(b"x")
    terminal.wait_for("0.85")
    terminal.press(b"\x1b[H")  # a key that lists have, too
    terminal.wait_for("Presets")
    terminal.press(ESC)
    terminal.wait_without("Presets")
    terminal.press(ESC)
    terminal.wait_for("1–9")
    choose(terminal, "lore")
    terminal.wait_for("c new")
    terminal.press(b"c")
    terminal.wait_for("Name of the new entry")
    terminal.type("river")
    terminal.press(ENTER)
    terminal.wait_for("Keys river")
    terminal.type("It is wide.")
    terminal.wait_for("It is wide.")
    terminal.press(ESC)
    terminal.wait_for("1–9")
    terminal.press(b"o")
    terminal.wait_for("F6 picks it")
    terminal.press(ESC)
    terminal.wait_for("1–9")
    terminal.press(F10)
    terminal.wait_for("c changes one")
    terminal.press(b"c")
    terminal.wait_for("; expected")
    terminal.press(ESC)
    terminal.wait_without("; expected")
    terminal.press(F10)  # closes what it has opened
    terminal.wait_for("1–9")
    terminal.press(b"?")
    terminal.wait_for("n narrows")
    terminal.press(b"n")
    terminal.type("lorebook")
    terminal.wait_for("In the lorebook")
    terminal.press(ENTER, b"q")
    terminal.wait_for("1–9")
    terminal.press(F6)
    terminal.wait_for("x reads on")
    terminal.press(F6)
    terminal.wait_for("1–9")


def test_a_text_and_its_search_obey_keys_of_the_writers_own_and_contradictions_are_said(
    terminal: Terminal,
) -> None:
    contradictions = {"tree_bin": "b", "tree_note": "y", "tree_title": "y", "pick": "k"}
    own_keys(terminal, {"text_start": "f11", "find_case": "f6", **contradictions})
    file = make_story(terminal.folder, "It rained.")
    terminal.start(file)
    expected = (
        "y is given to tree_note and to tree_title (In the tree): it does the first.",
        "No key is left for kill, tree_bookmark",
    )
    terminal.wait(
        lambda screen: all(words in " ".join(screen.split()) for words in expected), "what is wrong"
    )
    terminal.wait(says_saved, "the first screen")
    terminal.press(F11)
    terminal.type("So. ")
    terminal.wait(lambda _: text_of(file) == "So. It rained.", "the words stand at the beginning")
    terminal.press(CTRL_F)
    terminal.wait_for("F6 case")
    terminal.type("IT")
    terminal.wait_for("1 of 1")
    terminal.press(F6)
    terminal.wait_for("not in the story")


@pytest.mark.full
def test_help_of_a_screen_begins_with_its_own_keys(terminal: Terminal) -> None:
    own_keys(terminal, {"help": "f5", "tree_hoist": "y"})
    with_branches(terminal)
    terminal.press(F3)
    terminal.wait_for("y hoist")
    terminal.press(F5)
    terminal.wait(lambda screen: "In the tree" in screen and "Go to this passage" in screen, "its commands")
    terminal.press(F5)
    terminal.wait_without("In the tree")
    terminal.wait_for("y hoist")
