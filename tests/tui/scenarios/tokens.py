"""Scenarios of text token by token, and of words coloured by their tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srbwriter.tui import options
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.dialogs.tokens import TokenView
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import opened, scenario, started, visible


async def known(bench: Bench, view: TokenView) -> None:
    """Let the engine say what could have stood there."""
    while view._text is None or view._at not in view._text.known:
        bench.session.engine.process()
        view._look()
        await bench.pilot.pause()


@scenario
async def tokens(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    bench.session.stop_all()
    await bench.settle()
    await bench.choose("tokens")
    view: TokenView = await opened(bench, TokenView)
    await bench.press("home", "right", "right")
    await known(bench, view)
    text = view._text
    assert text is not None and view._at == 2
    others = text.known[2]
    best = next(one for one in others if one.id != text.tokens[2].id)
    assert best.shown.strip() in visible(bench)
    await bench.press("enter")
    assert bench.app.screen is bench.screen
    await bench.tokens(3)
    source, fork = bench.session.round.branches[0], bench.session.round.branches[4]
    assert fork.ids[:3] == (*source.ids[:2], best.id) and len(fork.ids) > 3
    assert bench.screen.grid.current == 4 and bench.screen.grid.pane.has_focus


@scenario
async def colour_tokens(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    pane = bench.screen.grid.panes[0]
    await choose(bench, "unlikely")
    assert bench.app.preferences[options.COLOUR_TOKENS] == "surprisal"
    assert bench.session.tokens.gather
    wild = {"temperature": 5.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # many unlikely words
    bench.session.sampling = replace(bench.session.sampling, **wild)
    bench.session.generate()
    await bench.tokens(12)
    await bench.on_panes()
    styles = [segment.style for segment in pane.render_line(1) if segment.style]
    assert any(style.bold and style.italic for style in styles)
    await choose(bench, "no colours")
    assert bench.app.preferences[options.COLOUR_TOKENS] == "none" and not bench.session.tokens.gather


async def choose(bench: Bench, words: str) -> None:
    """Choose the colours whose entry has ``words``."""
    bench.screen.run("colour_tokens")
    await opened(bench, Picker)
    await bench.press(*("space" if letter == " " else letter for letter in words), "enter")
