"""The steps of docs/first-story.md, by their keys, in a terminal."""

from __future__ import annotations

from pathlib import Path

from srbwriter import cli
from tests.terminal.support import READ, choose, ended, picks, says_saved, text_of
from tests.terminal.terminal import CTRL_N, CTRL_Q, CTRL_S, CTRL_Z, ENTER, F3, RIGHT, Terminal

UP = b"\x1b[A"
MINE = "Then it began to rain."


def ended_branches(terminal: Terminal, what: str) -> str:
    shown = terminal.wait(lambda screen: ended(screen) and "earlier text" not in screen, what)
    terminal.rest(READ)
    return shown


def test_the_tutorial_can_be_followed(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start("--n", "4", "--max-tokens", "16", "--seed", "3")
    terminal.wait_for("Choose an opening")
    terminal.press(ENTER)
    terminal.wait(lambda screen: picks(screen) and "Choose an opening" not in screen, "digits that pick")
    first = ended_branches(terminal, "four branches of the opening")

    terminal.press(b"3")
    terminal.wait(lambda screen: screen != first and picks(screen), "a pick")
    ended_branches(terminal, "four branches after the pick")
    terminal.press(CTRL_Z)
    terminal.wait(
        lambda screen: first.splitlines()[-8:-2] == screen.splitlines()[-8:-2], "the first branches"
    )

    for letter in MINE:
        terminal.press(letter.encode())
    before = terminal.wait_for(MINE).splitlines()[-18:-2]  # of the panes
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: screen.splitlines()[-18:-2] != before, "new branches")
    ended_branches(terminal, "four branches after a sentence of one's own")

    terminal.press(RIGHT)
    terminal.wait_for("BRANCH")
    terminal.press(b"w", b"w", ENTER)
    terminal.wait(picks, "digits that pick")
    ended_branches(terminal, "four branches after a part")

    terminal.press(F3)
    terminal.wait_for("go there")
    terminal.press(UP)
    terminal.wait_for("space shows them")
    terminal.press(b" ")
    terminal.wait(lambda screen: "shows them" not in screen, "the branches that were not picked")
    terminal.press(ENTER)
    terminal.wait(lambda screen: "go there" not in screen, "the story again")
    terminal.press(CTRL_N)
    ended_branches(terminal, "four branches from another node")

    terminal.press(RIGHT)
    terminal.wait_for("BRANCH")
    choose(terminal, "bans")
    terminal.wait_for("^s keep")
    terminal.press(ENTER)
    terminal.type("was very")
    terminal.press(CTRL_S)
    terminal.wait_for("banned.")
    terminal.press(CTRL_N)
    ended_branches(terminal, "four branches without the phrase")
    terminal.wait(says_saved, "everything on the disk")
    last = terminal.screen
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0

    [story] = (terminal.folder / "data").rglob("*.srbw")
    assert story.stem.lower().replace("-", " ") == "first story"
    assert MINE in " ".join(text_of(story).split()) or MINE in last
    book = tmp_path / "story.epub"
    assert cli.main(["export", str(story), "-o", str(book)]) == 0 and book.stat().st_size > 1000
