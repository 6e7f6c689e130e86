"""Keys that steer branches, and what the line at the foot and the panels say, over the real engine."""

from __future__ import annotations

from srbwriter.engine.types import FinishReason
from srbwriter.session import PromptAccount
from srbwriter.session.prompting import PromptPart
from srbwriter.tui.story.context_view import budget
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import footer


def finish(bench: Bench) -> None:
    """Let the branches write to their end."""
    writing = bench.session.round.branches
    while any(branch.live for branch in writing):
        assert bench.session.engine.process() or not any(branch.live for branch in writing)
    bench.session.sync()
    bench.screen.pump.flush()


async def test_k_clears_a_branch_that_has_ended(open_bench: OpenBench) -> None:
    async with open_bench(n=2) as bench:
        session = bench.session
        await bench.write()
        finish(bench)
        await bench.on_panes()
        branch, cells = session.round.branches[0], session.engine.stats().used_cells
        text = branch.text
        assert branch.finish_reason is FinishReason.LENGTH
        await bench.press("k")
        assert (branch.finish_reason, branch.text) == (FinishReason.KILLED, text)
        assert "killed" in bench.screen.grid.panes[0].head
        assert session.engine.stats().used_cells < cells - 30
        assert session.story.node(session.round.node_of(0)).text == text
        await bench.press("e")
        await bench.tokens(3)
        assert branch.live and branch.text.startswith(text)
        await bench.press("s")
        await bench.press("s")
        assert "ended already: stopped" in bench.last_said


def test_neighbours_of_one_source_are_one_row() -> None:
    parts = [
        PromptPart("story", "a", 0, False),
        PromptPart("memory", "m", 3, True),
        PromptPart("story", "b ", 5, True),
        PromptPart("story", "c", 6, True),
        PromptPart("note", "n", 2, True),
        PromptPart("story", "d", 4, True),
    ]
    shown = " ".join(str(budget(PromptAccount(parts, 20, 100))).split())
    rows = "story 1 word without room", "story 11 tokens", "note 2 tokens", "story 4 tokens"
    for row in rows:
        assert row in shown


async def test_esc_says_stop_only_where_something_can_be_stopped(open_bench: OpenBench) -> None:
    async with open_bench(n=2, size=(160, 30)) as bench:
        assert "stop" not in footer(bench)
        await bench.write(3)
        assert "esc stop" in footer(bench)
        await bench.press("escape")
        finish(bench)
        await bench.settle()
        assert "stop" not in footer(bench)
