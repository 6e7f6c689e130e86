"""Characters that are awkward to show or to type are in the file as they were typed or pasted."""

from __future__ import annotations

import random

from tests.terminal.support import (
    OPENING,
    says_saved,
    text_of,
    with_branches,
    words_from,
)
from tests.terminal.terminal import CTRL_Q, TAB, Terminal

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


OTHERS = {
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "next line": "a\u0085b",
    "byte order mark": "a\ufeffb",
    "tab": "a\tb",
    "tag flag": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "keycap": "1\ufe0f\u20e3",
    "private use": "\ue0b0\U000f0001",
    "many marks": "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a",
    "isolates": "\u2066abc\u2069 \u061c",
    "jamo": "\u1112\u1161\u11ab",
}
"""Of these some are keys and some end a line for Python; a paste can hold them all."""


def test_awkward_characters_are_kept_typed_and_pasted(terminal: Terminal) -> None:
    """In the story, with a paste of some 100 kB and paragraphs in it."""
    file = with_branches(terminal)
    typed, pasted = (
        "".join(f"[{name}: {characters}]" for name, characters in table.items())
        for table in (CHARACTERS, CHARACTERS | OTHERS)
    )
    terminal.press(TAB)
    terminal.wait_for("STORY")
    terminal.type(f"{typed}|")
    terminal.wait_for("|")
    chance = random.Random("paste")
    pasted += "\n\n".join(words_from(chance, 1000) for _ in range(100)) + "\u00e9\u00a0\u2026 Finis."
    assert len(pasted) > 100_000
    terminal.paste(pasted)
    terminal.wait_for("Finis.")
    terminal.type("~")
    terminal.wait(lambda _: text_of(file).endswith("~"), "the words on the disk")
    terminal.wait(says_saved, "saying that it is saved")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(file) == f"{OPENING}{typed}|{pasted}~"
