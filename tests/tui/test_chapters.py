"""Chapters on the screen: lines of the text, begun, listed, moved, and shown when reading."""

from __future__ import annotations

from tests.tui.conftest import OpenBench


async def test_a_moved_chapter_stops_branches_and_undo_shows_them(open_bench: OpenBench) -> None:
    text = "# One\n\nIt rained.\n\n# Two\n\nShe left."
    async with open_bench(text=text) as bench:
        await bench.write()
        branch = bench.texts()[0]
        bench.screen.editor.move_to(len(text))
        bench.screen.run("chapter_up")
        await bench.settle()
        moved = "# Two\n\nShe left.\n\n# One\n\nIt rained.\n\n"
        assert bench.screen.editor.text == bench.session.text() == moved
        assert bench.screen.editor.cursor == 0, "the cursor moves with the chapter"
        await bench.press("ctrl+z")
        assert bench.session.text() == text and bench.texts()[0] == branch


async def test_a_chapter_at_the_end_waits_for_its_words(open_bench: OpenBench) -> None:
    async with open_bench(text="It rained.") as bench:
        bench.screen.editor.move_to(10)
        bench.screen.run("chapter")
        await bench.press(*"One", "enter")
        bench.screen.editor.focus()
        await bench.press(*"Then.")
        assert bench.session.text() == "It rained.\n\n# One\n\nThen."
        assert [chapter.words for chapter in bench.session.story.outline()] == [1]
