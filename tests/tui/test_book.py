"""A long story in the app: its summaries, its outline, a lorebook entry from a selection, words by day."""

from __future__ import annotations

import time

from srbwriter.story import ROOT
from srbwriter.tui.dialogs.ask import Sheet
from tests.tui.conftest import OpenBench
from tests.tui.steps import LONG, visible

TEXT = "# One\n\nMara counted the boats.\n\n# Two\n\nMara went home."


async def test_summary_outline_entry_and_days(open_bench: OpenBench) -> None:
    async with open_bench(text=TEXT) as bench:
        book = bench.session.book
        bench.screen.run("so_far")
        await bench.settle()
        assert "no summary" in visible(bench)
        await bench.press("up", "enter")
        await bench.press(*"She counts.", "ctrl+s")
        summary = book.parts()[0][1]
        assert summary is not None and (summary.text, summary.by_model) == ("She counts.", False)

        bench.screen.run("outline")
        await bench.press(*"Two: She goes home.", "ctrl+s")
        assert book.outline == "Two: She goes home."
        assert "[This chapter: She goes home.]" in "".join(p.text for p in bench.session.context().parts)

        bench.screen.editor.select(7, 11)
        bench.screen.run("add_to_lore")
        begun = time.monotonic()
        while not isinstance(bench.app.screen, Sheet):
            assert time.monotonic() < begun + LONG, "the model proposes nothing"
            bench.session.engine.process()
            await bench.pilot.pause(0.02)
        await bench.press("ctrl+s")
        entry = bench.session.story.node(ROOT).settings.lore[0]
        assert entry.name == "Mara" and entry.keys == ["Mara"]

        bench.screen.run("words_by_day")
        await bench.settle()
        assert "This chapter: 4 words" in visible(bench)
        assert bench.session.text() == TEXT
