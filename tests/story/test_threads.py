"""One writer of streams, one writer of words and readers, all at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from srbwriter.story import ROOT, NotSaved, Story, StoryError
from srbwriter.story.streams import FLUSH_SECONDS


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


def test_a_stream_that_pauses_is_written_in_time(story: Story) -> None:
    [name] = story.begin_branches(ROOT, 1)
    written = threading.Event()
    commit = story._streams._settled

    def settled() -> None:
        commit()
        written.set()

    story._streams._settled = settled  # type: ignore[method-assign]
    story.stream(name, "the last words before a pause")
    assert written.wait(FLUSH_SECONDS + 10)
    assert story._desk.store.texts([name]) == {name: "the last words before a pause"}


def test_trouble_on_the_writing_thread_shows_and_goes(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    [name] = story.begin_branches(ROOT, 1)
    failed = threading.Event()
    attempt = story._streams._try_flush

    def try_flush() -> None:
        attempt()
        if story.trouble is not None:
            failed.set()

    monkeypatch.setattr(story._streams, "_try_flush", try_flush)
    db = story._desk.store.db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")
    story.stream(name, "words " * 20_000)
    assert failed.wait(30)
    assert isinstance(story.trouble, NotSaved)
    db.execute("PRAGMA max_page_count = 1000000")
    story.flush()
    assert story.trouble is None
    assert story._desk.store.texts([name])[name] == "words " * 20_000


def test_closing_ends_the_thread(tmp_path: Path) -> None:
    with Story.create(tmp_path / "t.srbw") as story:
        [name] = story.begin_branches(ROOT, 1)
        story.stream(name, "x")
        thread = story._streams._thread
        assert thread is not None
        assert thread.is_alive()
    assert not thread.is_alive()
    story.close()  # twice is once
    for verb in (lambda: story.stream(name, "y"), story.undo, lambda: story.text(ROOT)):
        with pytest.raises(StoryError, match="is closed"):
            verb()
