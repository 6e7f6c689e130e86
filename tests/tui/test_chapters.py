"""Rows of headings in the editor: drawn above their lines, and no place for the cursor."""

from __future__ import annotations

from textual.app import App, ComposeResult

from srbwriter import story
from srbwriter.tui.story.reading import Reading
from srbwriter.tui.write.story_editor import StoryEditor
from tests.tui.conftest import OpenBench
from tests.tui.steps import visible

BOOK = "It rained.\n\n" + "She left the house early. " * 9 + "\nHe stayed.\nThe sun rose."


class Page(App[None]):
    """An editor alone."""

    def __init__(self) -> None:
        super().__init__()
        self.edits: list[story.Edit] = []

    def compose(self) -> ComposeResult:
        yield StoryEditor(self.edits.append)


def painted(editor: StoryEditor) -> list[str]:
    """The rows on the screen."""
    return [editor.render_line(y).text.strip() for y in range(editor.size.height)]


async def test_headings_have_rows_that_the_cursor_passes() -> None:
    app = Page()
    async with app.run_test(size=(64, 20)) as pilot:
        editor = app.query_one(StoryEditor)
        editor.show(BOOK, 0)
        she, he = BOOK.index("She"), BOOK.index("He stayed")
        editor.chapter_titles = [(0, "One"), (she, "Two"), (he, "* * *")]
        await pilot.pause()
        page = painted(editor)
        assert page[:4] == ["One", "It rained.", "", "Two"] and page[4].startswith("She left")
        row = page.index("* * *")
        assert page[row + 1 : row + 3] == ["He stayed.", "The sun rose."]
        assert editor.text == BOOK
        editor.move_to(he + 3)
        await pilot.press("up")
        assert editor.cursor < he
        assert app.cursor_position.y == row - 1
        await pilot.press("down")
        assert editor.cursor == he + 3
        await pilot.press("up", "home", "up", "up", "up", "up", "up", "up", "up")
        assert editor.cursor == 0
        await pilot.click(StoryEditor, offset=(4, row))
        assert editor.cursor == he
        editor.move_to(she)
        await pilot.press("x")
        assert app.edits == [story.Edit(she, she, "x")] and painted(editor)[3] == "Two"
        await pilot.press(
            "backspace", "backspace", "backspace"
        )  # the heading's paragraph joins the first one
        page = painted(editor)
        assert page[:2] == ["One", "Two"] and page[2].startswith("It rained.She left")


async def test_reading_shows_headings(open_bench: OpenBench) -> None:
    text = "It rained.\nShe left.\n\nHe stayed."
    async with open_bench(text=text) as bench:
        bench.session.story.begin_chapter(text.index("She"), "The [Two]")
        bench.session.story.begin_chapter(text.index("He"), "")
        bench.screen.show_headings()
        bench.screen.run("read")
        await bench.settle()
        assert isinstance(bench.app.screen, Reading)
        shown = [row.strip() for row in visible(bench).splitlines()][:-1]
        page = "\n".join(shown).strip()
        assert page == "It rained.\n\nThe [Two]\n\nShe left.\n\n* * *\n\nHe stayed."


async def test_a_title_given_in_the_tree_is_a_heading_of_the_story(open_bench: OpenBench) -> None:
    async with open_bench(text="It rained.") as bench:
        await bench.press("f3", "t", *"Rain", "enter")
        await bench.press("escape")
        assert bench.screen.editor.chapter_titles == [(0, "Rain")]


async def test_a_chapter_deleted_with_its_text_has_no_heading(open_bench: OpenBench) -> None:
    text = "It rained.\n\nShe left."
    async with open_bench(text=text) as bench:
        bench.session.story.begin_chapter(text.index("She"), "Two")
        bench.screen.show_story()
        editor = bench.screen.editor
        editor.replace(5, len(text), "")
        bench.session.keep()
        bench.screen.flush_slowly()
        assert bench.session.text() == "It ra" and editor.chapter_titles == []


async def test_a_branch_is_picked_after_a_chapter_began_before_it(open_bench: OpenBench) -> None:
    text = "It rained.\n\nShe left."
    async with open_bench(text=text) as bench:
        await bench.write()
        branch = bench.texts()[0]
        bench.screen.editor.move_to(len(text))
        bench.screen.run("chapter")
        await bench.press(*"Two", "enter")
        assert bench.screen.editor.chapter_titles == [(text.index("She"), "Two")]
        await bench.on_panes()
        await bench.press("1")
        assert bench.session.text() == text + branch
        assert bench.screen.editor.chapter_titles == [(text.index("She"), "Two")]


async def test_a_moved_chapter_stops_branches_and_undo_shows_them(open_bench: OpenBench) -> None:
    text = "It rained.\n\nShe left."
    async with open_bench(text=text) as bench:
        bench.session.story.begin_chapter(0, "One")
        bench.session.story.begin_chapter(text.index("She"), "Two")
        bench.screen.show_story()
        await bench.write()
        branch = bench.texts()[0]
        bench.screen.editor.move_to(len(text))
        bench.screen.run("chapter_up")
        await bench.settle()
        assert bench.screen.editor.text == bench.session.text() == "She left.\n\nIt rained."
        await bench.press("ctrl+z")
        assert bench.session.text() == text and bench.texts()[0] == branch


async def test_a_chapter_of_an_empty_story_waits_for_its_words(open_bench: OpenBench) -> None:
    async with open_bench(text="") as bench:
        await bench.press("escape")  # the openings
        bench.screen.run("chapter")
        await bench.press(*"One", "enter")
        bench.screen.editor.focus()
        await bench.press(*"It rained.")
        bench.session.keep()
        bench.screen.flush_slowly()
        assert bench.session.text() == "It rained." and bench.screen.editor.chapter_titles == [(0, "One")]
        assert [chapter.words for chapter in bench.session.story.outline()] == [2]


async def test_a_long_title_is_cut_at_the_edge(open_bench: OpenBench) -> None:
    async with open_bench(text="It rained.", size=(80, 24)) as bench:
        bench.session.story.begin_chapter(0, "word " * 60)
        bench.screen.show_story()
        await bench.settle()
        strips = bench.screen.editor.render_line(0)
        assert strips.text.rstrip().endswith("…") and strips.cell_length <= bench.screen.editor.size.width
