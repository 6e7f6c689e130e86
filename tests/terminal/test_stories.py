"""Going from one story to another in a terminal: no word is lost, running branches are kept."""

from __future__ import annotations

from srbwriter.story import Story
from tests.terminal.support import OPENING, make_story, node_texts, text_of
from tests.terminal.terminal import CTRL_N, CTRL_Q, ENTER, ESC, Terminal

CTRL_O = b"\x0f"
TYPED = "All day, and all night."


def test_words_and_running_branches_are_kept_from_story_to_another(
    terminal: Terminal,
) -> None:
    library = terminal.folder / "data" / "srbwriter" / "library"
    first, orchard = make_story(library), library / "orchard.srbw"
    Story.create(orchard, "The Orchard").close()
    terminal.start(first, "--max-tokens", "4000", "--ignore-eos")
    terminal.wait_for("It rained.")
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: screen.count("writing") >= 2, "branches are written")
    terminal.type(TYPED)
    terminal.press(CTRL_O)
    terminal.wait_for("Stories, last changed first")
    terminal.type("orchard")
    terminal.wait_without("this one")
    terminal.press(ENTER)
    terminal.wait_for("Choose an opening")
    assert text_of(first) == OPENING + TYPED
    texts = node_texts(first)
    assert sum(len(text.split()) > 1 for text in texts) >= 3, f"branches are gone: {texts}"
    terminal.press(ESC)
    terminal.wait_without("Choose an opening")
    terminal.type("Apples.")
    terminal.press(CTRL_Q)
    terminal.ended()
    assert text_of(orchard) == "Apples."
