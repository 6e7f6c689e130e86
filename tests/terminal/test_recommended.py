"""From the bundled model to a larger one, in the program itself: offer, a fetch in parts, the same story."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.models import Machine, RecommendedModel, memory, memory_budget, read_recommended, recommend
from srbwriter.story import Story
from tests.fakes import hub
from tests.fakes.hub import Hub
from tests.terminal.support import choose, text_of
from tests.terminal.terminal import CTRL_N, CTRL_Q, ENTER, ESC, Terminal

CONFIG = "[model]\nthreads = 1\n\n[generation]\nn = 2\nmax_tokens = 16\n"
OFFER = "Larger models write better prose"
PICKS = 10
MEGABYTE = 1_000_000


def fitting() -> RecommendedModel:
    """The smallest model of the program's own list that fits this machine."""
    _, others = recommend(read_recommended().models, Machine(memory(), memory_budget()))
    fitting = [row.model for row in others if row.verdict == "fits"]
    if not fitting:
        pytest.skip("no two recommended models fit this machine")
    return fitting[-1]


def renamed() -> bytes:
    """The bundled model, which calls itself by another name."""
    return bundled_model().read_bytes().replace(b"storyteller", b"chronicler!", 1)


def starts_at(our_hub: Hub) -> list[int]:
    """Where in the file each request for its content began."""
    ranges = [asked.headers.get("Range", "") for asked in our_hub.files_asked()]
    return [int(found[1]) if (found := re.match(r"bytes=(\d+)-$", text)) else 0 for text in ranges]


def open_list(terminal: Terminal, model: RecommendedModel, words: str) -> None:
    """Open the list of models and narrow it to one, which the list describes with ``words``."""
    choose(terminal, "model")
    terminal.wait_for("narrow")
    terminal.type(model.name)
    terminal.wait(lambda screen: model.name in screen and words in screen, words)


def name_no_model(terminal: Terminal) -> None:
    terminal.config.write_text(CONFIG, "utf-8")


def panes(screen: str) -> str:
    """The part of the screen from the head of the first pane that has ended to the last row of panes."""
    return "\n".join(screen.splitlines()[:-2])[screen.find("■") :]


def pick_ten_times(terminal: Terminal, file: Path) -> None:
    picked = ""
    for _ in range(PICKS):
        screen = terminal.wait(
            lambda screen, picked=picked: screen.count("■") >= 2 and panes(screen) != picked,
            "new branches that have ended",
        )
        assert OFFER not in terminal.log.decode("utf-8", "replace")
        before, picked = len(text_of(file)), panes(screen)
        terminal.press(b"1")
        terminal.wait(lambda _, before=before: len(text_of(file)) > before, "a pick")


@pytest.mark.full
def test_a_larger_model_is_offered_fetched_in_three_parts_and_writes_the_same_story(
    terminal: Terminal,
) -> None:
    model = fitting()
    name_no_model(terminal)
    file = terminal.folder / "data" / "srbwriter" / "library" / "First-story.srbw"
    with hub.running() as our_hub:
        our_hub.repositories[model.repository] = {model.file: renamed()}
        our_hub.hold_after = 3 * MEGABYTE
        mirror = {"HF_ENDPOINT": our_hub.url}

        terminal.start(env=mirror)
        terminal.wait_for("Choose an opening")
        terminal.press(ENTER)
        pick_ten_times(terminal, file)
        terminal.wait_for(OFFER)

        open_list(terminal, model, "to fetch")
        terminal.press(ENTER)
        terminal.wait(
            lambda screen: re.search(rf"fetching {re.escape(model.name)} \d\d%", screen), "progress"
        )
        open_list(terminal, model, "being fetched now; enter stops that")
        terminal.press(ENTER)
        terminal.wait_for("The downloaded part is kept")
        terminal.wait_without("fetching")

        our_hub.hold_after = 2 * MEGABYTE
        open_list(terminal, model, "are here, enter continues")
        terminal.press(ENTER)
        terminal.wait(lambda _: len(our_hub.files_asked()) == 2, "the second part")
        terminal.wait(lambda screen: re.search(r"fetching .* [45]\d%", screen), "progress")
        terminal.kill()
        story = text_of(file)

        our_hub.cut_after = [MEGABYTE]
        terminal.start(env=mirror)
        terminal.wait_for("First story")
        open_list(terminal, model, "are here, enter continues")
        terminal.press(ENTER)
        terminal.wait_for(f"{model.name} writes from now on")
        assert text_of(file) == story
        starts = starts_at(our_hub)
        assert len(starts) == 4 and starts[0] == 0 and starts == sorted(set(starts)), (
            "each part begins further on"
        )

        choose(terminal, "figures")
        terminal.wait_for("chronicler!")
        left = panes(terminal.screen)
        terminal.press(CTRL_N)
        terminal.wait(lambda s: s.count("■") >= 2 and panes(s) != left, "new branches that have ended")
        terminal.press(b"1")
        terminal.wait(lambda _: len(text_of(file)) > len(story), "a pick")
        terminal.kill()
    assert text_of(file).startswith(story)
    with Story.open(file, readonly=True) as kept:
        assert kept.node(kept.current).model == "chronicler!"

    terminal.start()  # without a hub: the file is here, and is what writes from now on
    terminal.wait_for("First story")
    choose(terminal, "figures")
    terminal.wait_for("chronicler!")
    assert OFFER not in terminal.log.decode("utf-8", "replace").rpartition("writes from now on")[2]


@pytest.mark.full
def test_the_offer_waits_behind_the_first_question_of_the_second_story(terminal: Terminal) -> None:
    fitting()
    name_no_model(terminal)
    terminal.start()
    terminal.wait_for("Choose an opening")
    terminal.press(ESC)
    terminal.wait_without("Choose an opening")
    choose(terminal, "new_story")
    terminal.wait_for("Title of the new story")
    terminal.type("Second")
    terminal.press(ENTER)
    terminal.wait(lambda screen: "Choose an opening" in screen and "Second" in screen, "the second story")
    assert OFFER not in terminal.log.decode("utf-8", "replace")
    terminal.press(ESC)
    terminal.wait_for(OFFER)
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    offered = len(terminal.log)
    terminal.start()
    terminal.wait_for("Choose an opening")
    terminal.press(ESC)
    terminal.wait_without("Choose an opening")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert OFFER not in terminal.log[offered:].decode("utf-8", "replace")
