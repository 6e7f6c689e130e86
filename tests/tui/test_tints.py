"""Words coloured by their tokens: told apart in every theme, and by what steps."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from rich.segment import Segment
from textual.strip import Strip

from srbwriter.tui import options, themes
from srbwriter.tui.widgets.tints import (
    STEPS,
    TINTS,
    UNKNOWN,
)
from tests.tui.conftest import Bench, OpenBench


async def test_tints_are_told_apart_in_every_theme(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        for theme in (*themes.files(), "ansi-dark", "ansi-light"):
            bench.app.theme = theme
            await bench.pilot.pause()
            pane = bench.screen.grid.panes[0]
            pane.refresh()
            looks: dict[object, str] = {}
            for tint in STEPS:
                (segment,) = pane._filtered(Strip([Segment("x", pane._style(f"pane--{tint}"))]))
                assert segment.style is not None
                style = segment.style
                look = style.color, style.bold, style.italic, style.underline
                assert look not in looks, f"{theme}: {tint} looks like {looks[look]}"
                looks[look] = tint


async def test_coloured_words_are_selected_and_taken_as_before(open_bench: OpenBench) -> None:
    async with open_bench(settings={"instruments.colour_tokens": "surprisal"}, started=20) as bench:
        pane = bench.screen.grid.panes[0]
        before = pane.render_line(1).text
        await bench.press("w", "w")
        assert pane.take is not None and pane.render_line(1).text == before
        underlined = "".join(s.text for s in pane.render_line(1) if s.style and s.style.underline)
        assert underlined.strip() and before.strip("▌ ▐").startswith(underlined.strip()[:3])


async def test_the_story_is_coloured_as_far_as_the_model_reads_it(open_bench: OpenBench) -> None:
    text = "It rained all day and the cat sat by the window."
    async with open_bench(text, settings={"instruments.colour_tokens": "surprisal"}) as bench:
        await coloured(bench, len(text))
        editor = bench.screen.editor
        assert editor.provenance is not None and editor.provenance.length == len(text)
        found = [tint for _, _, tint in editor.provenance.between(0, len(text))]
        assert set(found) <= set(TINTS) and len(set(found) - {UNKNOWN}) >= 2
        editor.focus()
        editor.go(3)
        await bench.press("x")
        assert editor.whole == text[:3] + "x" + text[3:], "it is typed into as before"
        assert editor.provenance.length == len(text) + 1


async def test_words_keep_their_colours_until_those_after_an_undo_are_known(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "It rained all day and the cat sat by the window."
    async with open_bench(text, settings={"instruments.colour_tokens": "surprisal"}) as bench:
        await coloured(bench, len(text))
        editor = bench.screen.editor

        def tints() -> list[str]:
            found = editor.provenance
            assert found is not None and found.length == len(editor.whole)
            return [tint for start, end, tint in found.between(0, found.length) for _ in range(start, end)]

        editor.focus()
        editor.go(10)
        await bench.press(*"grey ")
        bench.session.keep()
        await coloured(bench, len(editor.whole))
        before = tints()
        monkeypatch.setattr(type(bench.session.tokens), "story_tokens", lambda _: Future())
        bench.screen.run("undo")
        assert editor.whole == text, "nothing was undone"
        assert tints()[:10] == before[:10]
        assert tints()[-20:] == before[-20:]


async def coloured(bench: Bench, length: int) -> None:
    """Let the engine look up what colours the story."""

    def unknown() -> int:
        found = bench.screen.editor.provenance
        if found is None:
            return length
        return sum(end - start for start, end, tint in found.between(0, length) if tint == UNKNOWN)

    for _ in range(200):
        bench.session.sync()
        bench.session.engine.process()
        bench.screen.pump.flush()
        await bench.pilot.pause()
        if unknown() < 6:  # of the first token nobody can tell
            return
    raise AssertionError(f"{unknown()} characters are not coloured")


async def test_a_story_without_a_word_is_coloured_too(open_bench: OpenBench) -> None:
    async with open_bench("", settings={"instruments.colour_tokens": "surprisal"}) as bench:
        assert bench.app.preferences[options.COLOUR_TOKENS] == "surprisal"
        colours = bench.screen._colours
        while colours._text is None:
            bench.session.engine.process()
            bench.screen.pump.flush()
            await bench.pilot.pause()
        bench.screen.pump.flush()
        assert not colours._text.tokens and bench.screen.editor.whole == ""
