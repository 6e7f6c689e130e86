"""A passage that is rewritten, in a terminal."""

from __future__ import annotations

from srbwriter.story import Story
from tests.terminal.support import choose, make_story, says_saved, wait_for_model
from tests.terminal.terminal import CTRL_Q, Terminal

AFTER = " He was very tired. Then he swam to the other side."


def test_a_sentence_is_rewritten(terminal: Terminal) -> None:
    terminal.start(make_story(terminal.folder, "The fox saw the river." + AFTER))
    terminal.wait(says_saved, "the first screen")
    wait_for_model(terminal)
    terminal.press(b"\x1b[1;5H")  # ctrl+home
    choose(terminal, "rewrite")
    terminal.wait_for(", the best")
    terminal.type("2")
    terminal.wait_for("Undo takes it back")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(terminal.folder / "tale.srbw", readonly=True) as story:
        text = story.text(story.current)
        [node] = story.nodes(story.path(story.current)[1:])
        assert text.endswith(AFTER) and not text.startswith("The fox saw")
        written = [span for span in node.spans if span.author == "model"]
        assert any(span.ids for span in written)  # not its first one, if that began with a space that went
        assert node.spans[-1].text.endswith(AFTER)
