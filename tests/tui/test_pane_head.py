"""The line above a branch: what the writer set stays, words are shortened before a part goes."""

from __future__ import annotations

import pytest

from srbwriter.tui.write.branch_words import Head, find_thoughts
from tests.tui.conftest import OpenBench

WRITING = Head("3", "▸", "writing", hidden=4, tokens=262, speed=31.0)
DONE = Head("3", "■", "no room left", tokens=262)


@pytest.mark.parametrize(
    ("head", "width", "expected"),
    [
        (WRITING, 40, " 3 ▸ writing             ↓4 262 tok 31/s"),
        (WRITING, 28, " 3 ▸ writing ↓4 262 tok 31/s"),
        (WRITING, 27, " 3 ▸ writing     ↓4 262 tok"),
        (WRITING._replace(marks="ready"), 28, " 3 ▸ writing · ready  ↓4 262"),
        (WRITING._replace(marks="ready ★"), 28, " 3 ▸ writing · » ★    ↓4 262"),
        (WRITING._replace(note="temp 0.71", hidden=0), 28, " 3 ▸ writing · temp 0.71 262"),
        (WRITING._replace(note="temp 0.71, top p 0.9", hidden=0), 28, " 3 ▸ writing · temp 0.71 …  "),
        (WRITING._replace(note="temp 0.71", marks="ready ★"), 28, " 3 ▸ · temp 0.71 · » ★      "),
        (WRITING._replace(note="temp 0.71", marks="ready ★"), 20, " 3 ▸ · » ★          "),
        (DONE, 28, " 3 ■ no room left    262 tok"),
        (DONE._replace(marks="ready ★"), 28, " 3 ■ no room left · » ★  262"),
        (DONE._replace(marks="ready"), 20, " 3 ■ · »            "),
        (DONE._replace(marks="ready"), 29, " 3 ■ no room left · ready 262"),
        (DONE._replace(tokens=0), 28, " 3 ■ no room left           "),
        (DONE._replace(sign="!", state="failed: host: no connection"), 28, " 3 ! failed              262"),
        (DONE._replace(thoughts=8), 28, " 3 ■ · thought 8            "),
    ],
)
def test_what_stands_in_a_line(head: Head, width: int, expected: str) -> None:
    assert head.line(width) == expected


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
            bench.session.steer(0, "append", go_on=True, text=text[start : start + size])
            bench.screen.pump.flush()
        assert pane.text == "She ran. She did not stop."
        assert "thought 8 words" in pane.head
        await bench.on_panes()
        await bench.press("d", "enter")
        assert bench.session.text() == "It rained.She ran."


async def test_while_it_thinks_nothing_is_shown_but_that(open_bench: OpenBench) -> None:
    async with open_bench(n=1, fake=True) as bench:
        bench.session.generate()
        bench.session.steer(0, "append", go_on=True, text="<think>one two three")
        bench.screen.pump.flush()
        pane = bench.screen.grid.panes[0]
        assert pane.text == ""
        assert "thought 3 words" in pane.head
