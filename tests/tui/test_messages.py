"""What is told is shown for as long as it takes to read, once, and while it holds."""

from __future__ import annotations

import pytest
from textual.geometry import Region

from srbwriter.tui.messages import Messages
from tests.tui.conftest import OpenBench
from tests.tui.scenarios.common import visible


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(messages: Messages) -> list[str]:
    return [message.words for message in messages.current]


def test_messages_of_one_moment_are_shown_together_and_go() -> None:
    clock = Clock()
    messages = Messages(clock)
    seconds = messages.add("one", error=False)
    clock.now += 0.5
    messages.add("two", error=True)
    assert shown(messages) == ["one", "two"]
    clock.now += seconds - 0.4
    assert shown(messages) == ["two"]
    clock.now += seconds
    assert shown(messages) == []


def test_what_is_said_again_is_shown_once() -> None:
    messages = Messages(Clock())
    messages.add("the disk is full", error=True)
    messages.add("the disk is full", error=True)
    assert shown(messages) == ["the disk is full"]


def test_a_message_goes_when_its_subject_has_changed() -> None:
    messages, disk = Messages(Clock()), ["full"]
    messages.add("the disk is full", error=True, about=lambda: disk[0])
    messages.add("picked", error=False)
    assert shown(messages) == ["the disk is full", "picked"]
    disk[0] = "free"
    assert shown(messages) == ["picked"]


async def test_what_undo_says_goes_with_the_next_change_of_the_story(open_bench: OpenBench) -> None:
    async with open_bench("It rained.", fake=True) as bench:
        line = bench.screen.status_line
        await bench.press("!", "ctrl+z")
        assert line.message == "Undid: your words."
        await bench.press("left")
        assert line.message == "Undid: your words."
        await bench.press("?")
        assert line.message == ""


async def test_a_refused_pick_is_forgotten_in_a_new_round(open_bench: OpenBench) -> None:
    async with open_bench("It rained.", n=2, fake=True) as bench:
        await bench.write(3)
        bench.screen.run("pick_number", 9)
        await bench.settle()
        assert bench.screen.status_line.message == "There is no branch 9."
        await bench.press("ctrl+n")
        assert bench.screen.status_line.message == ""


async def test_trouble_of_a_model_is_forgotten_once_another_one_is_loaded(open_bench: OpenBench) -> None:
    async with open_bench("It rained.", ready=False) as bench:
        bench.session.fail_loading(ValueError("no such file"))
        await bench.settle()
        assert "cannot be loaded" in bench.screen.status_line.message
        bench.session.load_again()
        bench.session.finish_loading()
        await bench.settle()
        assert bench.screen.status_line.message == ""


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_message_of_three_lines_moves_no_pane(size: tuple[int, int], open_bench: OpenBench) -> None:
    async with open_bench("It rained.", n=2, size=size, fake=True) as bench:
        await bench.write(3)

        def places() -> list[Region]:
            screen = bench.screen
            return [part.region for part in (screen.editor, *screen.grid.shown, screen.key_line)]

        before = places()
        bench.screen.notify("One.\nTwo.\nThree.")
        await bench.settle()
        line = bench.screen.status_line
        assert places() == before
        assert line.region.height == 3 and line.region.bottom == bench.screen.key_line.region.y
        rows = visible(bench).splitlines()[-4:-1]
        assert [row.strip().split()[-1].rstrip("·") for row in rows] == ["One.", "Two.", "saved"]
        assert "Three." in rows[2]
