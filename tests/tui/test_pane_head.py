"""The line above a branch: its state comes first, and what does not fit is cut."""

from __future__ import annotations

import pytest

from srbwriter.session.prefix import Prefix
from srbwriter.tui.write.branch_words import find_thoughts, head_line
from tests.tui.conftest import OpenBench, write_on


@pytest.mark.parametrize(
    ("parts", "hidden", "width", "expected"),
    [
        (["▸ writing", "", ""], True, 24, " 3 ▸ writing           ↓"),
        (["", "ready · ★", ""], 0, 16, " 3 ready · ★    "),
        (["▸ writing", "ready · temp 0.71", ""], 0, 28, " 3 ▸ writing · ready · tem… "),
        ([], 0, 8, " 3      "),
    ],
)
def test_what_stands_in_a_line(parts: list[str], hidden: int, width: int, expected: str) -> None:
    assert head_line(3, parts, hidden, width) == expected


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
            write_on(bench, text[start : start + size])
            bench.screen.pump.flush()
        assert pane.text == "She ran. She did not stop."
        assert "thought 8 words" in pane.head
        await bench.on_panes()
        await bench.press("d", "enter")
        assert bench.session.text() == "It rained.She ran."


async def test_while_it_thinks_nothing_is_shown_but_that(open_bench: OpenBench) -> None:
    async with open_bench(n=1, fake=True) as bench:
        bench.session.generate()
        write_on(bench, "<think>one two three")
        bench.screen.pump.flush()
        pane = bench.screen.grid.panes[0]
        assert pane.text == ""
        assert "thought 3 words" in pane.head


async def test_a_branch_that_begins_inside_a_word_shows_the_whole_word(open_bench: OpenBench) -> None:
    async with open_bench("It was rai", n=1, fake=True) as bench:
        bench.session.generate()
        bench.session.round.prefix = Prefix.of("It was rai")
        write_on(bench, "ning hard. It")
        bench.screen.pump.flush()
        pane = bench.screen.grid.panes[0]
        assert pane.text == "raining hard. It"
        await bench.on_panes()
        await bench.press("d", "enter")
        assert bench.session.text() == "It was raining hard."
