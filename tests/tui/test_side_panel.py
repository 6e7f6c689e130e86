"""Memory, note and lorebook in the side panel: saved by itself."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from srbwriter.session.drafts import sheets_left
from srbwriter.story import ROOT
from srbwriter.story.model import LoreEntry, StorySettings
from srbwriter.tui.prose import Prose
from srbwriter.tui.story.side_panel import LORE, MEMORY, NOTE, LoreList, SidePanel
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import visible

QUAY = LoreEntry("a", "Quay", "Wet.", keys=["quay"])
TOM = LoreEntry("b", "Tom", "Gone.", keys=["tom"])


async def panel(bench: Bench, command: str = MEMORY) -> SidePanel:
    bench.screen.run(command)
    await bench.settle()
    found = bench.screen.panel
    assert found is not None and found.has_focus_within
    return found


async def saved(bench: Bench) -> StorySettings:
    """The settings on the disk, once all keys are there."""
    while not bench.session.story.save_state.saved:
        await bench.pilot.pause(0.05)
    return bench.session.story.node(ROOT).settings


async def test_what_is_typed_is_saved_while_the_panel_is_open(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await panel(bench)
        await bench.press(*"A harbour.", "tab", *"Slow.", "tab", "6")
        now = await saved(bench)
        assert (now.memory, now.author_note, now.author_note_depth) == ("A harbour.", "Slow.", 6)
        assert sheets_left(bench.session.story) == []
        await bench.press("backspace")
        assert (await saved(bench)).author_note_depth is None


async def test_the_summary_of_the_chapter_with_the_cursor_is_edited(open_bench: OpenBench) -> None:
    async with open_bench(text="# One\n\nShe counted.\n\n# Two\n\nShe left.") as bench:
        book = bench.session.book
        book.put(book.parts()[0][0], "She counts boats.", by_model=True)
        bench.screen.editor.move_to(8)
        found = await panel(bench)
        assert "So far: One  written by the model" in visible(bench) and "She counts boats." in visible(bench)
        found.query_one("#summary").focus()
        await bench.press("end", *" Twice.")
        summary = book.parts()[0][1]
        assert summary is not None and (summary.text, summary.by_model) == ("She counts boats. Twice.", False)
        assert "So far: One  yours" in visible(bench)


async def test_what_is_no_depth_is_refused_and_nothing_is_lost(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        opened_panel = await panel(bench, "author_note")
        await bench.press(*"Slow.")
        for wrong in ("two", "-1", "3.5", "100000"):
            opened_panel.query_one("#depth", Input).value = wrong
            await bench.pilot.pause()
            assert f"{wrong} is not a number of lines" in bench.said
            now = await saved(bench)
            assert (now.author_note, now.author_note_depth) == ("Slow.", None), wrong


async def test_an_entry_is_made_changed_and_deleted(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        story = bench.session.story
        opened_panel = await panel(bench, "lore")
        assert "no entries yet" in visible(bench)
        await bench.press("n", *"Smith, John", "enter", *"Tall.")
        assert r"Smith\, John" in visible(bench)
        assert opened_panel.query_one("#lore_keys", Input).value == r"Smith\, John"
        opened_panel.query_one(LoreList).focus()
        await bench.press("k", *", mill, /far,? away/i")
        [entry] = (await saved(bench)).lore
        assert (entry.name, entry.text) == ("Smith, John", "Tall.")
        assert entry.keys == ["Smith, John", "mill", "/far,? away/i"]
        opened_panel.query_one(LoreList).focus()
        await bench.press("t", "space")
        [entry] = story.node(ROOT).settings.lore
        assert entry.constant and not entry.enabled and "always  off" in visible(bench)
        await bench.press("d")
        assert story.node(ROOT).settings.lore == [] and "no entries yet" in visible(bench)
        await bench.press("n")
        assert bench.status.startswith(" LORE ")
        await bench.press("escape")
        assert (await saved(bench)).lore == [], "one without a name was thought better of"


async def test_the_fields_belong_to_the_highlighted_entry(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        story = bench.session.story
        story.put_settings(ROOT, StorySettings(lore=[QUAY, TOM]))
        opened_panel = await panel(bench, "lore")
        area = opened_panel.query_one("#lore_text", Prose)
        assert area.text == "Wet."
        await bench.press("down")
        assert area.text == "Gone."
        await bench.press("enter", *" Away.")
        assert [entry.text for entry in (await saved(bench)).lore] == ["Wet.", "Gone. Away."]
        opened_panel.query_one(LoreList).focus()
        await bench.press("up")
        assert area.text == "Wet."
        opened_panel.query_one(LoreList).focus()
        await bench.press("d", "u")
        assert [entry.text for entry in story.node(ROOT).settings.lore] == ["Wet.", "Gone. Away."]


@pytest.mark.parametrize(("columns", "beside"), [(160, True), (100, True), (99, False), (80, False)])
async def test_the_panel_has_a_column_of_its_own_where_there_is_room(
    columns: int, beside: bool, open_bench: OpenBench
) -> None:
    async with open_bench(n=2, size=(columns, 24), fake=True) as bench:
        await bench.write(3)
        before = [part.region for part in (bench.screen.editor, *bench.screen.grid.shown)]
        box = (await panel(bench)).region
        await bench.settle()
        assert box.right == columns and box.bottom == bench.screen.status_line.region.y
        edges = [part.region.right for part in (bench.screen.editor, *bench.screen.grid.shown)]
        assert (max(edges) <= box.x) == beside or not bench.screen.editor.size
        assert (box.width == columns) != beside
        await bench.press("escape")
        await bench.settle()
        assert [part.region for part in (bench.screen.editor, *bench.screen.grid.shown)] == before


async def test_every_part_can_be_reached_in_the_smallest_window(open_bench: OpenBench) -> None:
    async with open_bench(size=(40, 12), fake=True) as bench:
        bench.session.story.put_settings(ROOT, StorySettings(lore=[QUAY]))
        opened_panel = await panel(bench)
        box = opened_panel.region
        for command in (MEMORY, NOTE, LORE):
            part = opened_panel.query_one(f"#{command}")
            part.focus()
            await bench.settle()
            assert part.region.height >= 1 and box.contains_region(part.region), command


async def test_a_click_into_the_story_leaves_the_panel_and_a_wide_window_keeps_it(
    open_bench: OpenBench,
) -> None:
    async with open_bench(size=(120, 30), fake=True) as bench:
        for columns, stays in ((120, False), (180, True)):
            await bench.pilot.resize_terminal(columns, 30)
            await panel(bench)
            await bench.press(*"Wet.")
            await bench.pilot.click(offset=(5, 5))
            await bench.settle()
            assert bench.screen.editor.has_focus and (bench.screen.panel is not None) == stays
        assert bench.session.story.node(ROOT).settings.memory == "Wet.Wet."
        assert bench.screen.grid.region.x > bench.screen.editor.region.x, "the branches stay on the right"
        await panel(bench)
        bench.screen.run(MEMORY)
        await bench.settle()
        assert bench.screen.panel is None, "the same command closes it"


async def test_each_field_undoes_its_own_and_the_story_stays(open_bench: OpenBench) -> None:
    async with open_bench("It rained.", fake=True) as bench:
        await panel(bench)
        await bench.press(*"Wet.", "ctrl+z")
        assert bench.session.story.node(ROOT).settings.memory is None
        assert bench.session.text() == "It rained."
