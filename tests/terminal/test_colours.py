"""Unlikely words that are coloured: in all rows, right after an edit, and in another story."""

from __future__ import annotations

import pytest

from srbwriter.story import Story
from tests.terminal.support import make_story
from tests.terminal.terminal import ENTER, F11, Terminal

STORY = (
    "Once upon a time there was a girl named Ilse. She was sent to fetch water from the well of the village "
    "every day. It was dark and green."
)
OTHER = (
    "The cat sat by the river and watched the boats go by. A purple elephant danced with nine accountants."
)
PLAIN = {(False, False, False)}
CTRL_O = b"\x0f"


@pytest.mark.full
def test_every_row_is_coloured_after_the_choice_after_an_edit_and_in_another_story(
    terminal: Terminal,
) -> None:
    file = make_story(terminal.folder, STORY)
    library = terminal.folder / "data" / "srbwriter" / "library"
    library.mkdir(parents=True)
    with Story.create(library / "other.srbw") as story:
        story.append(OTHER)
    terminal.configure(more="\n[keys]\ncolour_tokens = 'f11'\n")
    terminal.start(file)
    terminal.wait_for("girl named")
    terminal.press(F11)
    terminal.wait_for("who wrote what")
    terminal.type("unlikely")
    terminal.press(ENTER)
    for words in ("Once upon a time there was a girl", "every day. It was dark"):
        terminal.wait(lambda _, words=words: len(terminal.looks(words)) > 1, f"colours of {words}")
    terminal.type(" A purple elephant sang")
    terminal.wait(lambda _: terminal.looks("elephant sang") - PLAIN, "colours of what was typed")
    assert len(terminal.looks("Once upon a time there was a girl")) > 1

    terminal.press(CTRL_O)
    terminal.wait_for("last changed first")
    terminal.type("other")
    terminal.press(ENTER)
    terminal.wait_for("The cat sat")
    for words in ("The cat sat by the river and watched", "accountants."):
        terminal.wait(lambda _, words=words: terminal.looks(words) - PLAIN, f"colours of {words}")
