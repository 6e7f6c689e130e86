"""Who has the room of the window: layouts by size, the split, quiet, and lines that fit 80 columns."""

from __future__ import annotations

from rich.cells import cell_len

from srbwriter.tui import options
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import started, visible

STORY = "\n".join(f"Line {number} of the story." for number in range(200))


async def test_the_layout_is_chosen_by_the_size_of_the_window(open_bench: OpenBench) -> None:
    async with open_bench(fake=True, size=(80, 40)) as bench:

        def beside() -> bool:
            return bench.screen.grid.region.x > bench.screen.editor.region.x

        assert not beside()
        for columns, expected in ((140, True), (139, False), (200, True), (80, False)):
            await bench.pilot.resize_terminal(columns, 40)
            await bench.pilot.pause()
            assert beside() is expected, columns
        await bench.press("ctrl+l")
        assert bench.app.preferences[options.LAYOUT] == "right"
        for columns in (200, 80):
            await bench.pilot.resize_terminal(columns, 40)
            await bench.pilot.pause()
            assert beside(), "a layout that was chosen stays"


def cursor_row(bench: Bench) -> int:
    """The row of the window that the cursor is in."""
    return bench.app.cursor_position.y


def read(bench: Bench) -> None:
    """The messages have been read."""
    bench.app.said.clear()


async def test_in_quiet_the_line_of_the_cursor_stays_in_the_middle(open_bench: OpenBench) -> None:
    async with open_bench(STORY, fake=True, size=(80, 24)) as bench:
        await bench.press("ctrl+t")
        assert "esc shows everything again" in bench.said
        read(bench)
        await bench.pilot.pause()
        seen = visible(bench)
        assert "Line 199" in seen and "saved" not in seen and "^q" not in seen
        middle = cursor_row(bench)
        assert 10 <= middle <= 13
        await bench.press("enter", *"More.", "enter")
        assert cursor_row(bench) == middle and "More." in visible(bench)
        await bench.press(*["up"] * 30)
        assert cursor_row(bench) == middle, "in the middle of the text"
        assert "Line 175" in visible(bench), "what follows is in view"
        await bench.press("escape")
        assert "saved" in visible(bench) and bench.screen.editor.has_focus


async def test_whoever_goes_to_branches_sees_them(open_bench: OpenBench) -> None:
    async with open_bench(fake=True, started=12) as bench:
        for key in ("tab", "ctrl+n"):
            bench.screen.editor.focus()
            await bench.press("ctrl+t", key)
            assert not bench.screen.quiet and bench.screen.grid.size.height > 5, key


async def test_title_and_keys_fit_80_columns(open_bench: OpenBench) -> None:
    async with open_bench(fake=True, size=(80, 24)) as bench:
        bench.session.story.set_properties(title="The extraordinarily long rain over the harbour of Brannoch")
        await started(bench)
        for place, last in ((bench.screen.grid.panes[0], "^g menu"), (bench.screen.editor, "^q quit")):
            place.focus()
            await bench.pilot.pause()
            bench.screen.flush_slowly()
            await bench.pilot.pause()
            status, keys = visible(bench).splitlines()[-2:]
            assert "The extraordinarily lon…" in status and "saved" in status and "words" in status
            for wanted in (" help", last, " write"):
                assert wanted in keys
            assert cell_len(keys.rstrip()) <= 80
