"""Thoughts are folded away, counted, and never picked."""

from __future__ import annotations

import pytest

from srbwriter.tui.write.branch_words import find_thoughts
from tests.tui.conftest import OpenBench


@pytest.mark.parametrize(
    ("text", "words", "shown"),
    [
        ("She ran.", 0, "She ran."),
        ("<think>one two</think>\n\nShe ran.", 2, "She ran."),
        (" \n<think>\n</think>She ran.", 0, "She ran."),
        ("<think>one two", 2, None),
        ("He said <think> aloud.", 0, "He said <think> aloud."),
    ],
)
def test_thoughts_stand_at_the_beginning(text: str, words: int, shown: str | None) -> None:
    found = find_thoughts(text)
    assert found.words == words
    assert (None if found.end is None else text[found.end :]) == shown


@pytest.mark.parametrize("size", [1, 3, 200])
async def test_the_pane_folds_them_as_they_come(size: int, open_bench: OpenBench) -> None:
    text = "<think>First she will run, then she will not.</think>\n\nShe ran. She did not stop."
    async with open_bench(n=2, fake=True) as bench:
        bench.session.generate()
        bench.screen.pump.flush()
        pane = bench.screen.grid.panes[0]
        for start in range(0, len(text), size):
            bench.session.append(0, text[start : start + size])
            bench.screen.pump.flush()
        assert pane.text == "She ran. She did not stop."
        assert "thought 8 words" in pane.head
        await bench.on_panes()
        await bench.press("d", "enter")
        assert bench.session.text() == "It rained.She ran."


async def test_while_it_thinks_nothing_is_shown_but_that(open_bench: OpenBench) -> None:
    async with open_bench(n=1, fake=True) as bench:
        bench.session.generate()
        bench.session.append(0, "<think>one two three")
        bench.screen.pump.flush()
        pane = bench.screen.grid.panes[0]
        assert pane.text == ""
        assert "thought 3 words" in pane.head
