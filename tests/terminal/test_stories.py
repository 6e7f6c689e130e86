"""Going from one story to another in a terminal: no word is lost, running branches are kept."""

from __future__ import annotations

from srbwriter.story import Story
from tests.terminal.support import OPENING, choose, make_story, node_texts, text_of
from tests.terminal.terminal import CTRL_N, CTRL_Q, ENTER, ESC, F2, Terminal

CTRL_O = b"\x0f"
TYPED = "All day, and all night."


def test_words_and_running_branches_are_kept_from_story_to_copy_and_to_another_story(
    terminal: Terminal,
) -> None:
    library = terminal.folder / "data" / "srbwriter" / "library"
    first, orchard = make_story(library), library / "orchard.srbw"
    Story.create(orchard, "The Orchard").close()
    terminal.start(first, "--max-tokens", "4000", "--ignore-eos")
    terminal.wait_for("It rained.")
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: screen.count("writing") >= 2, "branches are written")
    choose(terminal, "duplicate_story")
    terminal.wait_for("Title of the copy")
    terminal.press(ENTER)
    terminal.wait_for("This is the copy.")
    terminal.wait(lambda screen: screen.count("■") >= 2, "branches")
    [copy] = [file for file in library.glob("*.srbw") if file not in (first, orchard)]
    assert text_of(copy) == text_of(first) == OPENING
    for file in (first, copy):
        assert sum(len(text.split()) > 1 for text in node_texts(file)) >= 3, f"branches are gone: {file}"
    terminal.press(F2)
    terminal.wait_for("temperature")
    terminal.press(ESC, CTRL_N)
    terminal.wait(lambda screen: screen.count("writing") >= 2, "branches are written")
    terminal.type(TYPED)
    terminal.press(CTRL_O)
    terminal.wait_for("Stories, last changed first")
    terminal.type("orchard")
    terminal.wait_without("this one")
    terminal.press(ENTER)
    terminal.wait_for("Choose an opening")
    assert text_of(copy) == OPENING + TYPED
    texts = node_texts(copy)
    assert sum(len(text.split()) > 1 for text in texts) >= 6, f"branches are gone: {texts}"
    terminal.press(ESC)
    terminal.wait_without("Choose an opening")
    terminal.type("Apples.")
    terminal.press(CTRL_Q)
    terminal.ended()
    assert text_of(orchard) == "Apples."
