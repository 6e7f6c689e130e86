"""Every verb does something to the branch that it is about, or says why not."""

from __future__ import annotations

from dataclasses import replace

from srbwriter.story import ROOT
from srbwriter.tui.dialogs.openings import begin_sample, load_prompts
from srbwriter.tui.dialogs.picker import Picker
from tests.tui.conftest import Bench, OpenBench
from tests.tui.test_steering_keys import finish


async def earlier_sitting(open_bench: OpenBench, n: int = 3) -> list[str]:
    """Branches that have ended, in a story that is closed; returns their texts."""
    async with open_bench(n=n) as bench:
        bench.session.stop = replace(bench.session.stop, max_tokens=24)
        await bench.write(24)
        finish(bench)
        await bench.settle()
        return bench.texts()


async def test_a_branch_of_an_earlier_sitting_is_extended(open_bench: OpenBench) -> None:
    before = await earlier_sitting(open_bench)
    async with open_bench(text="", n=3) as bench:
        session = bench.session
        assert bench.texts() == before
        await bench.on_panes()
        await bench.press("e")
        await bench.settle()
        await bench.tokens(6)
        now = bench.texts()
        assert session.round.branches[0].live and now[1:] == before[1:]
        assert now[0].startswith(before[0]) and len(now[0]) > len(before[0])
        assert bench.screen.grid.panes[0].text == now[0]
        finish(bench)
        now = bench.texts()
        await bench.press("1")
        assert session.text() == "It rained." + now[0]


async def test_a_request_is_not_written_by_a_model_that_only_continues_text(open_bench: OpenBench) -> None:
    async with open_bench("") as bench:
        picker = bench.app.screen
        assert isinstance(picker, Picker)
        kinds = [choice.value.kind for choice in picker._choices if hasattr(choice.value, "kind")]
        assert kinds == sorted(kinds) and kinds[0] == "base", "its own openings come first"
        await bench.press("escape")
        sample = next(prompt for prompt in load_prompts() if prompt.request)
        begin_sample(bench.screen, sample)
        await bench.pilot.pause()
        assert bench.session.text() == "" and bench.session.round is None
        assert bench.session.story.settings(ROOT).request == sample.request
        assert "only continues text" in bench.said
        plain = next(prompt for prompt in load_prompts() if prompt.text)
        begin_sample(bench.screen, plain)
        settings = bench.session.story.settings(ROOT)
        assert (settings.request, settings.memory or "") == (None, plain.memory)
        assert bench.session.text() == plain.text and bench.session.round is not None


async def test_undo_names_words_and_marks(open_bench: OpenBench) -> None:
    async with open_bench("It rained.", n=2) as bench:
        story, here = bench.session.story, bench.session.node
        story.mark(here, bookmark=True)
        await bench.press(*" Long")
        undone: list[str] = []
        for _ in range(2):
            await bench.press("ctrl+z")
            undone.append(bench.last_said)
        names = ("your words", "bookmark")
        assert undone == [f"Undid: {name}." for name in names]


async def go(bench: Bench, command: str) -> None:
    bench.screen.run(command)
    await bench.pilot.pause()


async def test_a_verb_that_has_nothing_to_do_says_so(open_bench: OpenBench) -> None:
    async with open_bench(n=2) as bench:

        async def answer(verb: str) -> str:
            bench.app.said.clear()
            await go(bench, verb)
            return bench.last_said

        await bench.on_panes()
        for verb in ("pause", "copy", "bookmark"):
            assert "no branch" in await answer(verb), verb
        await bench.write(4)
        await bench.on_panes()
        bench.session.stop_all()
        finish(bench)
        assert "ended already" in await answer("pause")
        assert "Nothing is being written" in await answer("back")
