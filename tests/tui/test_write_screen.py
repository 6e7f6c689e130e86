"""The write screen: branches run, are picked, and the story goes on."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from srbwriter.story import NotSaved
from tests.tui.conftest import OpenBench


async def test_one_key_starts_n_branches_and_a_digit_picks_and_new_ones_go_on(open_bench: OpenBench) -> None:
    async with open_bench(n=4) as bench:
        await bench.write(12)
        panes = bench.screen.grid.shown
        assert len(panes) == 4
        assert [pane.text for pane in panes] == bench.texts()
        assert all("writing" in pane.head for pane in panes)
        await bench.on_panes()
        picked, first_round = bench.texts()[2], bench.session.round
        await bench.press("3")
        assert bench.session.text() == bench.screen.editor.text == "It rained." + picked
        assert bench.session.round is not first_round
        assert all(branch.live for branch in bench.session.round.branches)


async def test_branches_started_while_the_model_loads_appear_when_it_has(open_bench: OpenBench) -> None:
    async with open_bench(ready=False) as bench:
        await bench.press("ctrl+n")
        assert "loading the model" in bench.screen.status_line.line
        bench.session.finish_loading()
        await bench.tokens(5)
        assert all(pane.text for pane in bench.screen.grid.shown)


@pytest.mark.full
async def test_a_pane_stays_where_the_reader_is(open_bench: OpenBench) -> None:
    async with open_bench(n=4) as bench:
        bench.session.stop = bench.session.stop.__class__(max_tokens=None, ignore_eog=True)
        await bench.write(200)
        await bench.on_panes()
        pane = bench.screen.grid.pane
        assert pane is not None
        for keys in ((), ("end", "pageup")):
            await bench.press(*keys)
            seen = [pane.render_line(y).text for y in range(1, pane.size.height)]
            await bench.tokens(100)
            assert [pane.render_line(y).text for y in range(1, pane.size.height)] == seen
        await bench.press("end")
        await bench.tokens(100)
        assert pane.render_line(pane.size.height - 1).text.strip("▌ ▐") in pane.text


async def test_typed_words_reach_the_story_before_branches_are_written(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press(*" Hard")
        await bench.press("ctrl+n")
        assert bench.session.text() == "It rained. Hard"
        current = bench.session.round  # the end of what was typed is left for the model to spell again
        read = bench.session.engine.detokenize(current.generation.prompt_ids)
        assert read + current.lead == "It rained. Hard"


async def test_markup_in_a_branch_is_plain_text(open_bench: OpenBench) -> None:
    async with open_bench(n=1) as bench:
        await bench.write(1)
        bench.session.append(0, " [/bold] [red]danger[")
        await bench.tokens(1)
        pane = bench.screen.grid.shown[0]
        assert "[/bold] [red]danger[" in "".join(pane.render_line(y).text for y in range(pane.size.height))


async def test_painting_goes_on_whatever_the_disk_does(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of a transaction that has just been refused, and a file that cannot be read."""

    def unreadable() -> None:
        raise NotSaved(bench.session.story.file, "disk I/O error", full=False)

    async with open_bench() as bench:
        await bench.write()
        nodes = [track.nodes for track in bench.session.round.tracks]
        monkeypatch.setattr(bench.session.story, "today", unreadable)
        for track in bench.session.round.tracks:
            track.nodes = [(4711, 0)]
        bench.screen.status_line.right = ()
        await bench.settle()
        assert bench.screen.status_line.right
        for track, before in zip(bench.session.round.tracks, nodes, strict=True):
            track.nodes = before


@pytest.mark.full
async def test_the_cursor_stands_where_something_was_undone(open_bench: OpenBench) -> None:
    async with open_bench(text="It rained.\n\nNobody came.") as bench:
        bench.screen.editor.go(len("It rained"))
        await bench.press(*" hard")
        bench.session.keep()
        await bench.press("ctrl+z")
        assert bench.screen.editor.text == "It rained.\n\nNobody came."
        assert bench.screen.editor.place == len("It rained")
        await bench.press("ctrl+y")
        assert bench.screen.editor.place == len("It rained hard")
        await bench.press("ctrl+z", "ctrl+z", "ctrl+z")  # more often than there is anything to take back
        await bench.press("!")
        assert bench.session.text().endswith("!")


async def test_what_ones_own_editor_wrote_is_an_edit_of_its_own(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nprintf " From afar" >> "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    async with open_bench() as bench:
        monkeypatch.setattr(bench.app, "suspend", contextlib.nullcontext)
        await bench.press(*" Hard", "f4", *" and long")
        assert bench.screen.editor.text == "It rained. Hard From afar and long"
        for text in ("It rained. Hard From afar", "It rained. Hard", "It rained."):
            await bench.press("ctrl+z")
            assert bench.screen.editor.text == text
