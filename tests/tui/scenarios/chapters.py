"""Scenarios of chapters and scenes."""

from __future__ import annotations

import pytest

from srbwriter.tui.dialogs.picker import Picker
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, opened, scenario, visible

BOOK = "It rained.\n\nShe left.\n\nHe stayed."


async def book(bench: Bench, *titles: tuple[str, str]) -> str:
    """Show the book, with a chapter at each paragraph that starts with the given words; return it."""
    text = BOOK
    for words, title in titles:
        text = text.replace(words, f"{f'# {title}' if title else '* * *'}\n\n{words}")
    bench.session.set_text(text)
    bench.screen.show_story()
    await bench.settle()
    return text


@scenario
async def chapter(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await book(bench)
    bench.screen.editor.go(BOOK.index("left"))
    bench.screen.run("chapter")
    await answer(bench, "Two")
    two = "It rained.\n\n# Two\n\nShe left.\n\nHe stayed."
    assert bench.session.text() == bench.screen.editor.whole == two
    bench.screen.editor.go(two.index("Two"))
    bench.screen.run("chapter")  # there is one: another title
    await answer(bench, "")
    assert bench.screen.editor.whole == two.replace("# Two", "* * *")
    await bench.press("ctrl+z", "ctrl+z")
    assert bench.session.text() == bench.screen.editor.whole == BOOK


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
    text = await book(bench, ("It", "One"), ("He", "Two"))
    bench.screen.editor.go(len(text))
    bench.screen.run("chapter_up")
    await bench.settle()
    moved = "# Two\n\nHe stayed.\n\n# One\n\nIt rained.\n\nShe left."
    assert bench.session.text() == bench.screen.editor.whole == moved
    assert bench.screen.editor.place == 0
    bench.screen.run("chapter_up")
    await bench.settle()
    assert "this is the first chapter already" in visible(bench)
    await bench.press("ctrl+z")
    assert bench.session.text() == bench.screen.editor.whole == text


@scenario
async def chapter_down(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await book(bench, ("It", "One"), ("He", "Two"))
    bench.screen.editor.go(3)
    bench.screen.run("chapter_down")
    await bench.settle()
    assert bench.session.text() == "# Two\n\nHe stayed.\n\n# One\n\nIt rained.\n\nShe left."
    assert bench.screen.editor.place == len("# Two\n\nHe stayed.\n\n")
