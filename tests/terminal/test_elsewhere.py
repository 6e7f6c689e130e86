"""The app on an engine elsewhere: another srbwriter, and vLLM where ``PEERS_VLLM`` is the address of one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.story import Story
from tests.engine.peers import VLLM, served
from tests.terminal.support import OPENING, READ, make_story, node_texts, says_saved, text_of
from tests.terminal.terminal import CTRL_N, CTRL_Q, CTRL_Z, TAB, Terminal


@pytest.fixture(params=["srb", "vllm"])
def url(request: pytest.FixtureRequest, engine: Engine) -> Iterator[str]:
    if request.param == "vllm":
        if VLLM is None:
            pytest.skip("PEERS_VLLM names no vLLM")
        yield VLLM
        return
    with served(engine) as address:
        yield address


def test_eight_panes_on_an_engine_elsewhere(terminal: Terminal, url: str) -> None:
    file = make_story(terminal.folder)
    terminal.start(file, "--connect", url, "-n", "8", "--max-tokens", "400", "--ignore-eos")
    terminal.wait(says_saved, "the first screen")
    terminal.press(CTRL_N)
    terminal.wait_for("▸ writing")
    terminal.wait(
        lambda _: sum(len(text) > 40 for text in node_texts(file)) >= 8, "eight branches are written"
    )

    terminal.press(TAB, b"r")  # the first is rolled again while the others are written
    terminal.wait(lambda _: len(node_texts(file)) >= 11, "the old take stays beside the new one")
    terminal.press(b" ")
    terminal.wait_for("cannot be paused")
    terminal.press(b"k")
    terminal.wait_for("killed")
    terminal.rest(READ)
    terminal.press(b"2")
    terminal.wait(lambda _: len(text_of(file)) > len(OPENING) + 40, "a branch is picked")
    terminal.press(CTRL_Z)
    terminal.wait(lambda _: text_of(file) == OPENING, "undo takes it back")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0

    terminal.start(file, "--gpu-layers", "0")  # and the same story on a model of this machine
    terminal.wait(says_saved, "the story is open")
    written = len(node_texts(file))
    terminal.press(CTRL_N)
    terminal.wait(lambda _: len(node_texts(file)) > written, "branches of the model here")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(file, readonly=True) as story:
        recorded = {node.model for node in story.nodes(list(story.reading_order())) if node.author == "model"}
    assert "storyteller" in recorded
