"""What the interface promises, in a terminal: few colours, quiet, writing from the cursor."""

from __future__ import annotations

import pytest

from tests.terminal.support import OPENING, make_story, says_saved, text_of
from tests.terminal.terminal import COLUMNS, CTRL_Q, CTRL_Z, ESC, LINES, Terminal

CTRL_B, CTRL_T = b"\x02", b"\x14"


def grounds(terminal: Terminal, row: int) -> set[str]:
    """The backgrounds of a row, as the terminal was told them."""
    assert terminal.screen
    return {terminal._screen.buffer[row][column].bg for column in range(COLUMNS)}


def test_a_terminal_of_16_colours_gets_numbers_and_a_bar_apart_from_the_page(terminal: Terminal) -> None:
    terminal.start(make_story(terminal.folder), env={"TERM": "xterm", "COLORTERM": ""})
    terminal.wait(says_saved, "the first screen")
    assert b";38;2;" not in terminal.log and b"[38;2;" not in terminal.log
    assert b"38;5;" not in terminal.log and b"48;5;" not in terminal.log
    page = grounds(terminal, 0)
    bar = next(row for row in range(LINES) if "saved" in terminal.screen.splitlines()[row])
    assert len(page) == 1 and not grounds(terminal, bar) & page


def test_what_follows_the_cursor_comes_back_when_writing_from_there_is_undone(terminal: Terminal) -> None:
    file = make_story(terminal.folder, f"{OPENING}Nobody came.")
    terminal.start(file)
    terminal.wait_for("Nobody came.")
    terminal.press(*[b"\x1b[D"] * len("Nobody came."))
    terminal.press(CTRL_B)
    terminal.wait(lambda screen: screen.count("tok/s") or screen.count("full length"), "branches are written")
    terminal.wait(lambda _: text_of(file) == OPENING, "the story ends at the cursor")
    terminal.press(ESC, CTRL_Z)
    terminal.wait(lambda _: text_of(file) == f"{OPENING}Nobody came.", "undo brings it back")


def test_words_typed_in_quiet_are_saved_and_nothing_else_is_shown(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait(says_saved, "the first screen")
    terminal.press(CTRL_T)
    terminal.wait_without("^q quit")
    terminal.type("All day.")
    terminal.wait(lambda _: text_of(file) == f"{OPENING}All day.", "the words are in the file")
    terminal.press(ESC)
    terminal.wait_for("^q quit")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0


OWN_THEME = 'background = "no colour at all"\n'


@pytest.mark.parametrize("colours", ["xterm", "xterm-256color"])
@pytest.mark.parametrize(
    ("theme", "said"),
    [("lamplite", "did you mean lamplight?"), ("mine", "Showing lamplight until the theme mine can be read")],
)
def test_a_theme_that_is_not_there_is_said_and_the_default_one_shown(
    terminal: Terminal, theme: str, said: str, colours: str
) -> None:
    folder = terminal.folder / "config" / "srbwriter" / "themes"
    folder.mkdir()
    (folder / "mine.toml").write_text(OWN_THEME)
    terminal.start(make_story(terminal.folder), "--theme", theme, env={"TERM": colours, "COLORTERM": ""})
    terminal.wait(lambda screen: said in " ".join(screen.split()), "a line about the theme")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
