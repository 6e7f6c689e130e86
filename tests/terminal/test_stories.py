"""Going from one story to another in one terminal session: each key goes into the story that it is for."""

from __future__ import annotations

from srbwriter.story import Story
from tests.terminal.support import OPENING, make_story, node_texts, text_of
from tests.terminal.terminal import CTRL_N, CTRL_Q, ENTER, LEFT_ALTERNATE_SCREEN, Terminal

CTRL_O = b"\x0f"
TYPED = "All day, and all night."


def test_keys_of_one_packet_go_each_into_the_story_that_they_are_for(terminal: Terminal) -> None:
    library = terminal.folder / "data" / "srbwriter" / "library"
    first, orchard = make_story(library), library / "orchard.srbw"
    Story.create(orchard, "The Orchard").close()
    terminal.start(first, "--max-tokens", "4000", "--ignore-eos")
    terminal.wait_for("It rained.")
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: screen.count("writing") >= 2, "branches are written")
    terminal.type(TYPED)
    to_orchard, to_tale = CTRL_O + b"orchard" + ENTER, CTRL_O + b"tale" + ENTER
    terminal.press(to_orchard + b"Apples." + to_tale + b" Alpha." + to_orchard + b" Pears.")
    terminal.wait_for("Apples. Pears.")
    assert text_of(first) == f"{OPENING}{TYPED} Alpha."
    texts = node_texts(first)
    assert sum(len(text.split()) > 1 for text in texts) >= 3, f"branches are gone: {texts}"
    assert LEFT_ALTERNATE_SCREEN not in terminal.log, "the terminal was given back between two stories"
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(orchard) == "Apples. Pears."
