"""Sentences by their surprise, and its curves in the heads of branches."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList

from srbwriter.session.surprise import Surprise
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.widgets.curves import LEVELS
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import head, opened, scenario, started, visible

TEXT = (
    "It was a sunny day and the little girl went to the park to play with her friends. "
    "Nine copper umbrellas argued with the senator about the price of salt in Lisbon. "
    "She saw a big red ball and she was very happy to play with the ball."
)


@scenario
async def surprise(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.session.set_text(TEXT)
    bench.screen.show_story()
    bench.screen.go_to_story()
    await bench.settle()
    bench.screen.run("surprise")
    scores = Surprise.of(bench.session)
    assert scores.progress
    while scores.progress:
        bench.session.engine.process()
        await bench.pilot.pause()
    while bench.app.screen is bench.screen:
        await bench.pilot.pause()
    picker: Picker = await opened(bench, Picker)
    listed = visible(bench)
    assert "Flattest" in listed and "Most unexpected" in listed and "The words are yours." in listed
    entries = picker.query_one("#picker-list", OptionList)
    assert entries.option_count == 5, "two names, and each sentence once"
    await bench.press("down", "down", "enter")
    assert bench.app.screen is bench.screen and bench.screen.editor.has_focus
    assert bench.screen.editor.place == TEXT.index("Nine")
    assert bench.screen.editor.whole == TEXT


@scenario
async def curves(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    assert not set(LEVELS) & set(head(bench))
    bench.screen.run("curves")
    assert bench.session.tokens.gather and not set(LEVELS) & set(head(bench)), "nobody has scored its tokens"
    bench.session.stop_all()
    await bench.settle()
    while not set(LEVELS) & set(head(bench)):
        bench.session.engine.process()
        bench.screen.flush_slowly()
    bench.session.generate()
    await bench.tokens(12)
    assert len([sign for sign in head(bench) if sign in LEVELS]) in (6, 12), "by the width of the pane"
    assert "under 1 bit" in visible(bench)
    bench.screen.keep_view()
    assert bench.session.view["curves"] is True
    bench.screen.run("curves")
    await bench.settle()
    assert not set(LEVELS) & set(head(bench)) and not bench.session.tokens.gather
