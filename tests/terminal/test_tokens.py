"""Token by token, through the real program: arrows, alternatives, forks and colours."""

from __future__ import annotations

import re

from tests.fakes.short_model import short_model
from tests.terminal.support import all_ended, make_story, node_texts, text_of, to_branches
from tests.terminal.support import ended as have_ended
from tests.terminal.terminal import CTRL_N, CTRL_Z, ENTER, ESC, Terminal

LEFT, RIGHT, DOWN, F6 = b"\x1b[D", b"\x1b[C", b"\x1b[B", b"\x1b[17~"
_HERE = re.compile(r"(\d+) of (\d+)  “(.*)”")
_CHOSEN = re.compile(r"▸ (?!ahead \d)(.*?) +[<\d.]+ %")  # not the words of the status line


def here(terminal: Terminal, place: int) -> tuple[str, str]:
    """The token in a place, and the alternative that is chosen, once both are shown."""

    def there(screen: str) -> bool:
        found = _HERE.search(screen)
        return found is not None and int(found[1]) == place and _CHOSEN.search(screen) is not None

    terminal.wait(there, f"token {place} with what else could have stood there")
    token, chosen = _HERE.search(terminal.screen), _CHOSEN.search(terminal.screen)
    assert token and chosen
    return token[3], chosen[1]


def test_the_story_and_a_branch_are_forked_at_a_token(terminal: Terminal) -> None:
    words = "It rained. The cat sat by the river."
    file = make_story(terminal.folder, words)
    terminal.start("-m", short_model(), file)
    terminal.wait_for("river.")
    terminal.press(F6, LEFT)  # at once: nobody knows the tokens yet
    terminal.wait(lambda screen: "“ river”" in screen, "the last token but one")
    found = _HERE.search(terminal.screen)
    assert found
    assert int(found[1]) == int(found[2]) - 1
    own, chosen = here(terminal, int(found[1]))
    assert own.strip() == "river" and chosen.strip() != "river"
    terminal.press(ENTER)
    terminal.wait(lambda _: text_of(file) == words.removesuffix(" river."), "the story ends before the word")
    terminal.wait(lambda screen: chosen.strip() in screen, "branches begin with what was chosen")
    assert words in node_texts(file)
    terminal.press(ESC, ESC, CTRL_Z)
    terminal.wait(lambda _: text_of(file) == words, "undo brings it back")

    terminal.wait_for("STORY")
    terminal.type(" ")
    terminal.wait(lambda _: text_of(file) == f"{words} ", "the words on the disk")
    nodes = len(list(filter(None, node_texts(file))))
    terminal.press(CTRL_N)

    def ended(screen: str) -> bool:
        written = len(list(filter(None, node_texts(file)))) == nodes + 2
        return have_ended(screen) and written and all_ended(file)

    terminal.wait(ended, "branches have ended and their words are in the file")
    to_branches(terminal)
    terminal.press(F6)
    here(terminal, 1)
    terminal.press(RIGHT, RIGHT, RIGHT)
    own, chosen = here(terminal, 4)
    assert chosen.strip() != own.strip()
    terminal.press(DOWN)
    terminal.wait(lambda screen: (m := _CHOSEN.search(screen)) is not None and m[1] != chosen, "another one")
    chosen = here(terminal, 4)[1]
    before = [text for text in node_texts(file) if text]
    terminal.press(ENTER)
    terminal.wait(lambda screen: "BRANCH 3" in screen, "the new branch has the keys")

    def kept(_: str) -> bool:
        fresh = [text for text in node_texts(file) if text not in before]
        return any(text[:3] == old[:3] and chosen.strip() in text[:60] for text in fresh for old in before)

    terminal.wait(kept, "the fork is in the file, and begins as its source does")

    terminal.wait(have_ended, "all have ended")
    terminal.press(F6)
    here(terminal, 1)
    terminal.press(RIGHT)
    here(terminal, 2)
    terminal.press(ESC)
    terminal.wait_without("⏎ continues with it")
    terminal.wait_for("1–9")
