"""Instruction models in the terminal: a sample's request goes into the user's turn, and not into the book."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.story import ROOT, Story
from srbwriter.tui.dialogs.openings import SamplePrompt, read_prompt
from tests.fakes.instruct_model import make_instruct
from tests.terminal.support import READ, ended, picks, text_of
from tests.terminal.terminal import CTRL_Q, ENTER, ESC, Terminal

F8 = b"\x1b[19~"
DOWN = b"\x1b[B"
INSTRUCT = [
    prompt
    for file in sorted(paths.asset_dir("sample_prompts").glob("*.txt"))
    if (prompt := read_prompt(file)).kind == "instruct"
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_instruct(tmp_path_factory.mktemp("instruct") / "toy.gguf")


def begin(terminal: Terminal, model: Path, sample: SamplePrompt) -> Path:
    """The program with an instruction model, over a new story that a sample has begun."""
    file = terminal.folder / "tale.srbw"
    terminal.start(file, "-m", model)
    terminal.wait_for("Choose an opening")
    titles = [*(prompt.title for prompt in INSTRUCT), "The smallest bear"]
    screen = terminal.wait(lambda shown: all(f"{title} " in shown for title in titles), "the samples")
    places = [screen.index(f"{title} ") for title in titles]
    assert max(places) == places[-1], "a sample for base models comes after all of them"
    place = sorted(places).index(places[titles.index(sample.title)])
    terminal.press(*[DOWN] * place, ENTER)
    terminal.wait(lambda shown: picks(shown) and ended(shown), "branches have ended")
    return file


def words_of(screen: str) -> str:
    """The words on a screen without frames and line breaks."""
    return " ".join(re.sub(r"[^\w\s.,'’<>|⟨⟩─-]", " ", screen).split())


def quit_program(terminal: Terminal) -> None:
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0


@pytest.mark.parametrize("sample", INSTRUCT[:1], ids=lambda sample: sample.title)
def test_the_request_of_a_sample_is_in_the_users_turn_and_not_in_the_story(
    terminal: Terminal, model: Path, sample: SamplePrompt
) -> None:
    file = begin(terminal, model, sample)
    terminal.rest(READ)
    terminal.press(b"1")
    terminal.wait(lambda _: text_of(file), "the pick is in the file")
    terminal.press(F8)
    seen = terminal.wait_for("<|im_start|>assistant")
    shown = words_of(seen)
    user, _, answer = shown.partition("<|endoftext|>")
    assert "<|im_start|>user" in user and sample.request[:40] in user
    assert "<|im_start|>assistant" in answer and sample.request[:40] not in answer
    terminal.press(ESC)
    quit_program(terminal)
    assert sample.request not in text_of(file) and text_of(file)
    with Story.open(file, readonly=True) as story:
        assert all(sample.request not in node.text for node in story.nodes(list(story.reading_order())))
        assert story.settings(ROOT).request == sample.request
