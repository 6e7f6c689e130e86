"""What is painted fits where it stands, whatever the window and the layout went through before."""

from __future__ import annotations

from textual.widgets import TextArea

from srbwriter.tui.widgets.wrap import Wrapper
from srbwriter.tui.write.branch_pane import BranchPane
from tests.tui.conftest import Bench, OpenBench

PARAGRAPH = "They were made officers. It was Maurel, who had flour, that would not come before the winter."
STORY = "\n\n".join(f"{number} {PARAGRAPH}" for number in range(12))
SIZES = [(120, 40), (200, 50), (240, 70), (100, 30), (80, 24), (60, 20), (160, 45)]
TEXT_WIDTH = 76


def pane_lines(pane: BranchPane) -> list[str]:
    return [pane.render_line(y).text.strip("▌ ▐") for y in range(1, pane.size.height)]


def check_pane(pane: BranchPane) -> None:
    """The pane paints its text as that is wrapped at the pane's width."""
    expected = Wrapper(pane.size.width - 2)
    expected.reset(pane.text)
    lines = [expected.shown(row).strip() for row in range(len(expected.lines))]
    lines = lines[pane.first_line :][: pane.size.height - 1]
    assert pane_lines(pane)[: len(lines)] == lines, f"pane {pane.number} of {pane.size}"


def check_editor(bench: Bench) -> None:
    """The story is as wide as the room or as reads well, in the middle, and wrapped for that."""
    editor = bench.screen.editor
    room = editor.outer_size.width
    assert editor.content_size.width in range(min(room - 4, TEXT_WIDTH), min(room - 4, TEXT_WIDTH) + 2)
    other = TextArea(editor.text, soft_wrap=True, show_line_numbers=False)
    other.wrapped_document.wrap(editor.wrap_width, editor.indent_width)
    painted = editor.wrapped_document
    lines = range(editor.document.line_count)
    assert [painted.get_sections(line) for line in lines] == [
        other.wrapped_document.get_sections(line) for line in lines
    ]
    assert editor.virtual_size.height == painted.height
    visible = [editor.render_line(y).text for y in range(editor.content_size.height)]
    words = " ".join(" ".join(visible).split())
    assert words in " ".join(editor.text.split()), "words are cut off between lines"


def check(bench: Bench) -> None:
    if bench.screen.editor.size:
        check_editor(bench)
    assert bench.screen.grid.shown
    for pane in bench.screen.grid.shown:
        assert pane.size, f"pane {pane.number} has no room"
        check_pane(pane)


async def resize(bench: Bench, size: tuple[int, int]) -> None:
    await bench.pilot.resize_terminal(*size)
    await bench.settle()


async def test_the_story_is_wrapped_for_the_window_it_is_in(open_bench: OpenBench) -> None:
    async with open_bench(STORY) as bench:
        for size in ((200, 50), (240, 70), (120, 40), (200, 50), (80, 24), (120, 40)):
            await resize(bench, size)
            check(bench)


async def test_a_word_that_begins_a_new_last_line_is_in_view_at_once(open_bench: OpenBench) -> None:
    async with open_bench(f"{STORY}\n\n{'w' * (TEXT_WIDTH - 3)} ") as bench:
        editor = bench.screen.editor
        rows = editor.wrapped_document.height
        for _ in range(5):
            await bench.press("x")
            cursor = editor.wrapped_document.location_to_offset(editor.cursor_location).y
            top = editor.scroll_offset.y
            assert top <= cursor < top + editor.content_size.height
        assert editor.wrapped_document.height == rows + 1
