"""One writer of streams, one writer of words and readers, all at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from srbwriter.story import ROOT, Story, StoryError


def together(*tasks: Callable[[], None]) -> None:
    """Run all tasks at once; the first error of any is raised here."""
    errors: list[BaseException] = []

    def run(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def test_any_thread_may_call_anything(story: Story, tmp_path: Path) -> None:
    names = story.begin_branches(ROOT, 3, vocab="v")
    done = threading.Event()

    def pump() -> None:
        for number in range(200):
            for name in names:
                story.stream(name, f"{number} ", [number])
        for name in names:
            story.finish(name, "length")
        done.set()

    def write() -> None:
        for number in range(30):
            story.append(f"typed {number}. ", story.add(ROOT, [""])[0])
            if number % 3 == 0:
                story.undo()
                story.redo()
            target = story.streaming.get(names[0])
            if target and len(story.node(target).text) > 6:
                story.pick(target, 3)

    def read() -> None:
        while not done.is_set():
            for node in story.reading_order():
                story.text(node)
            story.words_by_author()
            story.search("typed")

    together(pump, write, read)
    whole = "".join(f"{number} " for number in range(200))
    story.close()
    with Story.open(tmp_path / "s.srbw") as again:
        texts = [again.text(node) for node in again.reading_order()]
        assert texts.count(whole) == 3
        assert all(any(text.endswith(f"typed {number}. ") for text in texts) for number in range(30))


def test_who_reads_does_not_wait_for_the_disk(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    [name] = story.begin_branches(ROOT, 1)
    commit, on_the_disk, read = story._document.store.commit, threading.Event(), threading.Event()

    def slow() -> None:
        on_the_disk.set()
        assert read.wait(30)
        commit()

    monkeypatch.setattr(story._document.store, "commit", slow)

    def write() -> None:
        story.stream(name, "the last words")

    def look() -> None:
        assert on_the_disk.wait(30)
        assert story.text(name) == "the last words"
        assert story.node(name).text == "the last words"
        assert story.words(name) == 3
        assert story.today() is not None
        read.set()

    together(write, look)


def test_a_closed_story_says_so(tmp_path: Path) -> None:
    with Story.create(tmp_path / "t.srbw") as story:
        [name] = story.begin_branches(ROOT, 1)
        story.stream(name, "x")
    story.close()  # twice is once
    for verb in (lambda: story.stream(name, "y"), story.undo, lambda: story.text(ROOT)):
        with pytest.raises(StoryError, match="is closed"):
            verb()
