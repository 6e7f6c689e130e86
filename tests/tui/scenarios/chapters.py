"""Scenarios of chapters and scenes."""

from __future__ import annotations

import pytest

from srbwriter.tui.dialogs.picker import Picker
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, opened, scenario, visible

BOOK = "It rained.\n\nShe left.\n\nHe stayed."


async def book(bench: Bench, *titles: tuple[str, str]) -> None:
    """Show the book, with a chapter at each paragraph that starts with the given words."""
    bench.session.set_text(BOOK)
    for words, title in titles:
        bench.session.story.begin_chapter(BOOK.index(words), title)
    bench.screen.show_story()
    await bench.settle()


def headings(bench: Bench) -> list[tuple[str, str]]:
    """Each heading with the line below it."""
    whole = bench.screen.editor.whole
    return [(words, whole[at:].split("\n")[0]) for at, words in bench.screen.editor.headings]


@scenario
async def chapter(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await book(bench)
    bench.screen.editor.go(BOOK.index("left"))
    bench.screen.run("chapter")
    await answer(bench, "Two")
    assert headings(bench) == [("Two", "She left.")] and bench.session.text() == BOOK
    bench.screen.editor.go(BOOK.index("\nShe"))  # the blank line above
    bench.screen.run("chapter")  # there is one: another title
    await answer(bench, "")
    assert headings(bench) == [("* * *", "She left.")]
    await bench.press("ctrl+z", "ctrl+z")
    assert headings(bench) == [] and bench.session.text() == BOOK
    assert bench.screen.editor.place == BOOK.index("\nShe"), "the cursor stays"


@scenario
async def chapters(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.screen.run("chapters")
    await bench.settle()
    assert "There are no chapters yet." in visible(bench)
    await book(bench, ("It", "One"), ("She", ""), ("He", "Two"))
    bench.screen.run("chapters")
    await opened(bench, Picker)
    page = visible(bench)
    assert "4  One" in page and "2    * * *  She left." in page and "2  Two" in page
    await bench.press("up", "up", "enter")
    assert bench.screen.editor.place == 0 and bench.screen.focused is bench.screen.editor


@scenario
async def chapter_up(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await book(bench, ("It", "One"), ("He", "Two"))
    bench.screen.run("chapter_up")
    await bench.settle()
    assert bench.session.text() == bench.screen.editor.whole == "He stayed.\n\nIt rained.\n\nShe left."
    assert headings(bench) == [("Two", "He stayed."), ("One", "It rained.")]
    assert bench.screen.editor.place == 0
    bench.screen.run("chapter_up")
    await bench.settle()
    assert "this is the first chapter already" in visible(bench)
    await bench.press("ctrl+z")
    assert bench.session.text() == bench.screen.editor.whole == BOOK


@scenario
async def chapter_down(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await book(bench, ("It", "One"), ("He", "Two"))
    bench.screen.editor.go(3)
    bench.screen.run("chapter_down")
    await bench.settle()
    assert bench.session.text() == "He stayed.\n\nIt rained.\n\nShe left."
    assert bench.screen.editor.place == len("He stayed.\n\n")
