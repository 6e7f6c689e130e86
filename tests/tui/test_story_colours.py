"""Words of the story coloured by how likely they were, where there are none."""

from __future__ import annotations

from srbwriter.tui import options
from tests.tui.conftest import OpenBench


async def test_a_story_without_a_word_is_coloured_too(open_bench: OpenBench) -> None:
    async with open_bench("", settings={"instruments.colour_tokens": "probability"}) as bench:
        assert bench.app.preferences[options.COLOUR_TOKENS] == "probability"
        colours = bench.screen._colours
        while colours._text is None:
            bench.session.engine.process()
            bench.screen.pump.flush()
            await bench.pilot.pause()
        bench.screen.pump.flush()
        assert not colours._text.tokens and bench.screen.editor.whole == ""
