"""Typed words reach the story in order, also when the story is slow."""

from __future__ import annotations

import threading

from srbwriter.tui.autosave import Autosave


class SlowStory:
    """Takes a text only when it is let."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.begun = threading.Event()
        self.let = threading.Event()

    def save(self, text: str) -> None:
        self.begun.set()
        assert self.let.wait(10)
        self.texts.append(text)


def test_the_caller_does_not_wait_and_the_newest_is_last() -> None:
    story = SlowStory()
    autosave = Autosave(story.save)
    autosave.later("one")
    assert story.begun.wait(10)
    assert story.texts == []
    autosave.later("two")  # cannot begin yet, and is not the newest for long
    story.let.set()
    autosave.now("three")
    autosave.settle()
    assert story.texts[-1] == "three"
    assert story.texts in (["one", "three"], ["one", "two", "three"])


def test_nothing_older_comes_after_settling() -> None:
    story = SlowStory()
    autosave = Autosave(story.save)
    autosave.later("one")
    assert story.begun.wait(10)
    autosave.later("two")
    story.let.set()
    autosave.settle()
    settled = list(story.texts)
    for thread in threading.enumerate():
        if thread.name == "autosave":
            thread.join(10)
    assert story.texts == settled


def test_a_story_that_refuses_is_no_end_of_typing() -> None:
    def refuse(text: str) -> None:
        raise OSError("full")

    autosave = Autosave(refuse)
    autosave.later("one")
    autosave.settle()
