"""What the interface promises, in a terminal: few colours, quiet, writing from the cursor."""

from __future__ import annotations

from tests.terminal.support import OPENING, make_story, says_saved, text_of
from tests.terminal.terminal import COLUMNS, CTRL_Q, CTRL_Z, ESC, LEFT, LINES, Terminal

CTRL_B, CTRL_T = b"\x02", b"\x14"
OWN_THEME = 'background = "no colour at all"\n'


def grounds(terminal: Terminal, row: int) -> set[str]:
    """The backgrounds of a row, as the terminal was told them: a colour, or "reverse"."""
    assert terminal.screen
    cells = (terminal._screen.buffer[row][column] for column in range(COLUMNS))
    return {"reverse" if cell.reverse else cell.bg for cell in cells}


def test_a_sitting_in_a_terminal_of_16_colours(terminal: Terminal) -> None:
    """Keys before the first screen stands, an unreadable theme, quiet, and writing from the cursor."""
    folder = terminal.folder / "config" / "srbwriter" / "themes"
    folder.mkdir()
    (folder / "mine.toml").write_text(OWN_THEME)
    file = make_story(terminal.folder)
    terminal.start(file, "--theme", "mine", env={"TERM": "xterm", "COLORTERM": ""})
    terminal.type("and rained, ")  # which the terminal itself shows until the program takes it
    said = "There is no theme 'mine'; showing lamplight"
    terminal.wait(lambda screen: said in " ".join(screen.split()), "a line about the theme")
    terminal.wait(lambda _: text_of(file) == f"{OPENING}and rained, ", "words on the disk")
    terminal.wait(says_saved, "the first screen")
    assert b";38;2;" not in terminal.log and b"[38;2;" not in terminal.log
    assert b"38;5;" not in terminal.log and b"48;5;" not in terminal.log
    page = grounds(terminal, 0)
    foot = next(row for row in range(LINES) if "STORY" in terminal.screen.splitlines()[row])
    assert len(page) == 1 and grounds(terminal, foot) > page, "where keys go is told apart"

    terminal.press(CTRL_T)
    terminal.wait_without("^q quit")
    terminal.type("all day.")
    text = f"{OPENING}and rained, all day."
    terminal.wait(lambda _: text_of(file) == text, "words that were typed in quiet are in the file")
    terminal.press(ESC)
    terminal.wait_for("^q quit")

    terminal.press(*[LEFT] * len("all day."), CTRL_B)
    terminal.wait(lambda screen: "writes branches" not in screen, "branches are written")
    terminal.wait(lambda _: text_of(file) == f"{OPENING}and rained, ", "the story ends at the cursor")
    terminal.press(ESC, CTRL_Z)
    terminal.wait(lambda _: text_of(file) == text, "undo brings back what followed the cursor")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
