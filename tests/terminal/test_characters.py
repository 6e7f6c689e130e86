"""Characters that are awkward to show or to type are in the file as they were typed or pasted."""

from __future__ import annotations

import random

import pytest

from tests.terminal.support import OPENING, make_story, says_saved, text_of, words_from
from tests.terminal.terminal import CTRL_Q, Terminal

CHARACTERS = {
    "no-break space": "10\u00a0km",
    "narrow no-break space": "oui\u202f!",
    "thin space": "a\u2009b",
    "zero-width non-joiner": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "zero-width joiner": "\u0915\u094d\u200d\u0937",
    "soft hyphen": "light\u00adhouse",
    "combining marks": "e\u0301 o\u0308\u0323",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "flag and skin": "\U0001f1eb\U0001f1f7 \U0001f44b\U0001f3fd \u2764\ufe0f",
    "right to left": "\u200f\u0634\u0644\u0648\u0645\u200e",
    "word joiner": "a\u2060b",
    "ideographs": "\u4e00\u3000\u4e8c",
    "beyond the basic plane": "\U00020000\U0001d11e",
}


def missing(text: str) -> list[str]:
    return [name for name, characters in CHARACTERS.items() if f"[{characters}]" not in text]


@pytest.mark.parametrize("way", ["typed", "pasted"])
def test_awkward_characters_are_kept(terminal: Terminal, way: str) -> None:
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    text = "".join(f"[{characters}]" for characters in CHARACTERS.values())
    if way == "typed":
        terminal.type(text)
    else:
        terminal.paste(text)
    terminal.type("|")
    terminal.wait_for("|", within=5)
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    kept = text_of(file)
    lost = missing(kept)
    print(f"\n{way}, not kept: {', '.join(lost) or 'none'}")
    assert not lost
    assert kept == f"{OPENING}{text}|"


def test_a_long_paste_is_kept(terminal: Terminal) -> None:
    """Some 100 kB at once, with paragraphs in them."""
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    chance = random.Random("paste")
    text = "\n\n".join(words_from(chance, 1000) for _ in range(100)) + "\u00e9\u00a0\u2026 Finis."
    assert len(text) > 100_000
    terminal.paste(text)
    terminal.wait_for("Finis.")
    terminal.wait(says_saved, "saying that it is saved")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    kept = text_of(file)
    assert len(kept) == len(OPENING) + len(text)
    assert kept == OPENING + text
