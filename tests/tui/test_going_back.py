"""The branches on the screen are those of where the writer stands."""

from __future__ import annotations

from textual.events import Key

from tests.tui.conftest import OpenBench


async def test_after_an_undone_pick_its_siblings_can_be_picked(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        second = bench.texts()[1]
        await bench.on_panes()
        await bench.press("1")
        await bench.tokens(6)
        await bench.press("ctrl+z")
        assert bench.session.text() == "It rained."
        assert bench.screen.grid.panes[1].text == second
        await bench.press("2")
        assert bench.session.text() == "It rained." + second


async def test_back_at_the_beginning_the_panes_are_empty(open_bench: OpenBench) -> None:
    async with open_bench(started=12) as bench:
        await bench.press("f3", "up", "enter")
        assert bench.session.text() == ""
        assert all(pane.text == "" for pane in bench.screen.grid.panes)


async def test_after_an_undone_pick_behind_typed_words_its_siblings_are_there(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        texts = bench.texts()
        bench.screen.editor.focus()
        await bench.press(*" Zebra.")
        await bench.on_panes()
        await bench.press("3")
        await bench.tokens(6)
        await bench.press("ctrl+z")
        assert bench.session.text() == "It rained. Zebra."
        assert bench.texts() == texts
        await bench.press("2")
        assert bench.session.text() == "It rained. Zebra." + texts[1]
        await bench.press("ctrl+z", "ctrl+z", "ctrl+y")  # the typing too, and again
        assert bench.session.text() == "It rained. Zebra." and bench.texts() == texts


async def test_the_branches_stay_when_what_is_undone_leads_nowhere_else(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        texts = bench.texts()
        bench.screen.editor.focus()
        await bench.press(*" Zebra.")
        bench.session.story.mark(bench.session.node, bookmark=True)
        await bench.on_panes()
        await bench.press("ctrl+z")
        assert bench.session.text() == "It rained. Zebra."
        assert not any(node.bookmark for node in bench.session.story)
        assert bench.texts() == texts


async def test_keys_behind_an_undo_act_on_the_branches_that_it_brings_back(open_bench: OpenBench) -> None:
    async with open_bench(settings={"keys.undo": "u"}) as bench:
        await bench.write()
        await bench.settle()
        await bench.on_panes()
        await bench.press("1")
        bench.session.add_branches(1)
        await bench.tokens(6)
        bench.screen.grid.go(bench.session.n)  # the pane that the round before has not
        await bench.pilot.pause()
        for key in "ur":
            bench.app.post_message(Key(key, key))
        await bench.settle()
        assert bench.app.screen is bench.screen
        assert len(bench.session.round.branches) == bench.session.n
