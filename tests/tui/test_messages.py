"""What is told is shown for as long as it takes to read, once, and while it holds."""

from __future__ import annotations

from srbwriter.tui.messages import Messages


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


def test_what_does_not_hold_any_more_goes_at_once() -> None:
    messages = Messages(Clock())
    messages.add("the disk is full", error=True)
    messages.add("picked", error=False)
    messages.take_back("the disk is full")
    assert shown(messages) == ["picked"]
