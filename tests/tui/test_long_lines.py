"""Paragraphs of many rows are wrapped and painted as Textual would, and a key costs the rows around it."""

from __future__ import annotations

import random

import pytest
from rich.text import Text
from textual._wrap import compute_wrap_offsets
from textual.app import App, ComposeResult
from textual.widgets.text_area import Edit

from srbwriter.tui.write import long_lines
from srbwriter.tui.write.prose_area import ProseArea
from tests.sizes import examples

WORDS = ["a", "the", "tide", "雨雨雨", "—", "é\u0301", "word" * 9, "x" * 70, "\U0001f98a", "in.", "  "]


def prose(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


@pytest.mark.parametrize("width", [7, 40, 81])
def test_rows_part_where_they_would_if_all_was_wrapped(width: int) -> None:
    rng = random.Random(width)
    line = prose(rng, 800)
    old = compute_wrap_offsets(line, width, 4)
    for _ in range(examples(120)):
        start = rng.randint(0, len(line))
        end = min(len(line), start + rng.choice((0, 0, 1, 5, 300)))
        new = rng.choice(("", "x", " ", "雨", "two words ", prose(rng, 60), "y" * 500))
        line = line[:start] + new + line[end:]
        found = long_lines.rewrapped(line, width, old, start, end, start + len(new))
        old = compute_wrap_offsets(line, width, 4)
        assert found == old


class Area(App[None]):
    def compose(self) -> ComposeResult:
        yield ProseArea(soft_wrap=True, show_line_numbers=False)


async def test_a_row_is_painted_as_if_its_paragraph_was(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(4)
    paragraph = prose(rng, 500)
    async with Area().run_test(size=(60, 20)) as pilot:
        area = pilot.app.query_one(ProseArea)
        area.load_text(f"{paragraph}\nA short one.\n{paragraph}")
        for _ in range(examples(32)):
            row = rng.choice((0, 2))
            place = row, rng.randint(0, len(area.document[row]))
            area.edit(Edit(rng.choice(("x", " ", "", "word ")), place, place, False))
            area.move_cursor(
                (row, min(len(area.document[row]), place[1] + rng.randint(0, 9))), rng.random() < 0.5
            )
            await pilot.pause()
            painted = [area._render_line(y) for y in range(20)]
            with monkeypatch.context() as plainly:
                plainly.setattr(long_lines, "LONG", 10**9)
                again = ProseArea.get_line(area, row)
                assert isinstance(again, Text) and not isinstance(again, long_lines.Row)
                assert painted == [area._render_line(y) for y in range(20)]
                height = area.wrapped_document.height
                area.wrapped_document.wrap(area.wrap_width)
                assert area.wrapped_document.height == height
                assert painted == [area._render_line(y) for y in range(20)]
