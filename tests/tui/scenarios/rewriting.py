"""Scenarios of a passage that is rewritten."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from srbwriter.session.rewriting import Rewriting
from srbwriter.session.wishes import Wishes
from srbwriter.tui.dialogs.rewriting import RewriteView
from srbwriter.tui.dialogs.wish import AskWish
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import opened, scenario, started, visible

STORY = "The fox saw the river. He was very tired. Then he swam to the other side."


async def ranked(bench: Bench, view: RewriteView) -> None:
    """Let the engine write all variants, and rank them."""
    rewriting = Rewriting.of(bench.session)
    while (found := rewriting.variants) is None or not found.done:
        assert rewriting.problem is None, rewriting.problem
        rewriting.later(lambda: None).result(30)  # what is under way there
        while bench.session.engine.process():
            pass
    view.look()
    await bench.pilot.pause()


@scenario
async def rewrite(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.session.set_text(STORY)
    bench.screen.show_story()
    await started(bench)
    current = bench.session.round
    bench.session.stop_all()
    bench.screen.editor.go(STORY.index("very"))
    await bench.choose("rewrite")
    view: RewriteView = await opened(bench, RewriteView)
    await ranked(bench, view)
    found = Rewriting.of(bench.session).variants
    assert found is not None and len(found.fits) == 5
    assert "the best" in str(view.query_one(f"#variant-{found.best}", Static).content)
    assert "He was very tired." in visible(bench) and "fit" in visible(bench)
    first = [branch.text for branch in found.generation.branches]
    await bench.press("r")
    await ranked(bench, view)
    found = Rewriting.of(bench.session).variants
    assert found is not None and [branch.text for branch in found.generation.branches] != first
    await bench.press("w")
    await opened(bench, AskWish)
    await bench.press(*"shorter", "enter")
    await ranked(bench, view)
    found = Rewriting.of(bench.session).variants
    assert found is not None and Wishes.of(bench.session).earlier == ["shorter"]
    asked = bench.session.engine.detokenize(found.generation.prompt_ids)
    assert "He was very tired." in asked and "shorter" in asked and "shorter" in visible(bench)
    await bench.press("2")
    assert bench.app.screen is bench.screen and "Undo puts" in bench.last_said
    before, after = STORY.split(" He was very tired.")
    assert bench.session.text() == before + found.generation.branches[1].text.rstrip() + after
    assert bench.screen.editor.whole == bench.session.text() and bench.session.round is current
    bench.screen.run("undo")
    assert bench.screen.editor.whole == STORY
    await bench.choose("rewrite")
    await opened(bench, RewriteView)
    await bench.press("escape")
    assert bench.app.screen is bench.screen and bench.session.text() == STORY
