"""Going from one story to another in a terminal: no word is lost, running branches are kept."""

from __future__ import annotations

from tests.terminal.support import OPENING, make_story, node_texts, text_of, to_branches, with_branches
from tests.terminal.terminal import CTRL_N, CTRL_Q, ENTER, ESC, Terminal

CTRL_O = b"\x0f"
TYPED = "All day, and all night."


def test_keys_typed_just_before_a_switch_are_kept_and_so_are_running_branches(terminal: Terminal) -> None:
    library = terminal.folder / "data" / "srbwriter" / "library"
    first = make_story(library)
    terminal.start("new", "The Orchard")
    assert terminal.ended() == 0
    [orchard] = [file for file in library.glob("*.srbw") if file != first]
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
    terminal.wait_for("How shall it begin?")
    assert text_of(first) == OPENING + TYPED
    texts = node_texts(first)
    assert sum(len(text.split()) > 1 for text in texts) >= 4, f"branches are gone: {texts}"
    terminal.press(ESC)
    terminal.wait_without("How shall it begin?")
    terminal.type("Apples.")
    terminal.press(CTRL_Q)
    terminal.ended()
    assert text_of(orchard) == "Apples."


def test_a_copy_opened_from_the_branches_shows_them_and_chooses_none(terminal: Terminal) -> None:
    file = with_branches(terminal)
    terminal.press(b"&")
    terminal.wait_for("Title of the copy")
    terminal.press(ENTER)
    terminal.wait_for("This is the copy.")
    terminal.wait(lambda screen: "type to write" in screen and screen.count("■") >= 2, "branches")
    to_branches(terminal)
    terminal.press(b"K")
    terminal.wait_for("temperature")
    terminal.press(ESC, CTRL_Q)
    terminal.ended()
    [copy] = [other for other in file.parent.glob("*.srbw") if other != file]
    assert text_of(copy) == text_of(file)
