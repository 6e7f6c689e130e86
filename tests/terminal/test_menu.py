"""The menu of commands and the line of keys, in a terminal without the kitty keyboard protocol."""

from __future__ import annotations

from srbwriter.story import ROOT, Story
from tests.terminal.support import OPENING, choose, ended, foot, make_story, text_of, with_branches
from tests.terminal.terminal import CTRL_G, CTRL_N, CTRL_P, CTRL_Q, ENTER, ESC, RIGHT, Terminal


def test_a_command_is_found_by_a_word_while_the_story_is_typed(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    terminal.type("And on")
    terminal.press(CTRL_G)
    terminal.wait_for("🔎")
    terminal.type("reads before")
    terminal.wait(lambda screen: "Memory" in screen and "Kill this branch" not in screen, "what matches")
    terminal.press(ENTER)
    terminal.wait_for("saves by itself")
    terminal.type("An island.")
    terminal.press(ESC)
    terminal.wait_without("saves by itself")
    terminal.type(".")
    terminal.wait(lambda _: text_of(file) == f"{OPENING}And on.", "the story has the keys again")
    terminal.press(CTRL_P)
    terminal.wait_for("🔎")
    terminal.type("quit")
    terminal.press(ESC)
    terminal.wait_without("🔎")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(file, readonly=True) as story:
        assert story.settings(ROOT).memory == "An island."


def test_a_command_for_a_branch_is_refused_until_one_is_chosen(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    terminal.press(CTRL_N)
    terminal.wait(ended, "branches that have ended")
    choose(terminal, "kill")
    terminal.wait_for("is for a chosen branch. Press tab to choose one first.")
    terminal.press(RIGHT, RIGHT)
    terminal.wait_for("BRANCH 2")
    choose(terminal, "kill")
    shown = terminal.wait(lambda shown: "killed" in shown, "the chosen branch is killed")
    assert shown.count("killed") == 1


def test_the_footer_has_the_keys_to_know_in_a_small_terminal(terminal: Terminal) -> None:
    terminal.columns, terminal.lines = 80, 24
    with_branches(terminal)
    on_branch = ("r re-roll", "k kill", "dwfa part", "? help", "1–9 pick", "^n write", "^g menu", "^z undo")
    terminal.wait(lambda shown: all(words in foot(shown) for words in on_branch), "with a chosen branch")
    terminal.press(CTRL_N)
    unchosen = ("^n write", "^g menu", "^q quit", "F1 help", "^z undo", "1–9 pick")
    terminal.wait(lambda shown: all(words in foot(shown) for words in unchosen), "with none chosen")
