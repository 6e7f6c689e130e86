"""What is told is shown for as long as it takes to read, once, and while it holds."""

from __future__ import annotations

from srbwriter.tui.messages import Messages
from tests.tui.conftest import OpenBench


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
