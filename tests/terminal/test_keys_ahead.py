"""Keys that arrive one behind the other go to the prompt that the first opens, none to what is below it."""

from __future__ import annotations

import pytest

from tests.terminal.support import OPENING, foot, in_menu, text_of, with_branches
from tests.terminal.terminal import CTRL_F, CTRL_P, ESC, F3, TAB, Terminal

BURST = [b"1"] * 8
"""On a branch, ``1`` puts it into the story: the worst that a key can do in the wrong place. Each
arrives in a read of its own: what arrives in one is text."""

PROMPTS = {
    "memory": (in_menu("memory"), "saves by itself"),
    "author's note": (in_menu("author_note"), "Lines from the end"),
    "lorebook": (in_menu("lore"), "d delete"),
    "context": (in_menu("context"), "What the model sees"),
    "models": (in_menu("model"), "Models"),
    "tree": (F3, "esc goes back"),
    "search": (in_menu("search"), "Words to find"),
    "export": (in_menu("export"), "Export to which"),
    "import": (in_menu("import"), "Import which"),
    "find": (CTRL_F, "Find"),
    "commands": (CTRL_P, "No matches"),
    "settings": (b"\x1b[21~", "Settings"),
}
"""What opens it from the branches, and words that it shows."""


def on_branches(screen: str) -> bool:
    """Whether the branches have the keys."""
    return "BRANCH" in foot(screen) and "1–9" in foot(screen)


def leave(terminal: Terminal) -> None:
    """Press escape until the branches have the keys; a sheet that was changed asks first."""
    terminal.wait(lambda shown: not on_branches(shown), "a prompt that has the keys")
    terminal.press(ESC)
    ends = "discards your changes", "STORY"  # of a sheet, and of the side panel
    shown = terminal.wait(lambda shown: on_branches(shown) or any(words in shown for words in ends), "an end")
    if "STORY" in foot(shown):
        terminal.press(TAB)
        shown = terminal.wait(on_branches, "the branches' keys")
    if not on_branches(shown):
        terminal.press(b"d")
        terminal.wait(on_branches, "the branches' keys")


@pytest.mark.parametrize("part", [0])
def test_a_burst_of_keys_goes_to_the_prompt_that_opens(terminal: Terminal, part: int) -> None:
    file = with_branches(terminal)
    for name, (key, words) in list(PROMPTS.items())[part::2]:
        terminal.press(key, *BURST)
        terminal.wait_for(words)
        leave(terminal)
        assert text_of(file) == OPENING, name
