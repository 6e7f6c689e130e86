"""A model that cannot be loaded is said in a line: no dialog comes between a writer and their text."""

from __future__ import annotations

from tests.terminal.support import OPENING, choose, make_story, text_of
from tests.terminal.terminal import CTRL_Q, ESC, Terminal


def test_words_typed_while_a_model_fails_are_all_in_the_story(terminal: Terminal) -> None:
    model = terminal.folder / "broken.gguf"
    model.write_bytes(b"GGUF" + bytes(400))
    file = make_story(terminal.folder)
    terminal.start("--model", model, file)
    terminal.type("hello ")
    terminal.wait_for("The model cannot be loaded")
    terminal.type_steadily("reader, retry me", [1 / 15] * 20)
    terminal.wait(lambda _: text_of(file) == f"{OPENING}hello reader, retry me", "all that was typed")
    choose(terminal, "model")
    terminal.wait_for("tries again")
    terminal.press(ESC, CTRL_Q)
    assert terminal.ended() == 0
