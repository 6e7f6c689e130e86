"""Paragraphs of many rows and text that grows are wrapped as if all came at once, and no row is too wide."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text
from textual._wrap import compute_wrap_offsets
from textual.app import App, ComposeResult
from textual.widgets.text_area import Edit

from srbwriter.tui.widgets.wrap import Wrapper
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


TEXT = st.text(alphabet="ab é \n漢字😀,.-", max_size=120)


@given(st.lists(TEXT, max_size=8), st.integers(1, 30))
def test_growing_text_wraps_like_whole_text(parts: list[str], width: int) -> None:
    growing, whole = Wrapper(width), Wrapper(width)
    for part in parts:
        growing.append(part)
    whole.reset("".join(parts))
    assert growing.lines == whole.lines


@given(TEXT, st.integers(2, 30))
def test_no_line_is_wider_than_the_room(text: str, width: int) -> None:
    wrapper = Wrapper(width)
    wrapper.reset(text)
    for index in range(len(wrapper.lines)):
        assert cell_len(wrapper.shown(index).rstrip()) <= width


@given(TEXT, st.integers(1, 30))
def test_lines_hold_every_character_once(text: str, width: int) -> None:
    wrapper = Wrapper(width)
    wrapper.reset(text)
    held = "".join(text[line.start : line.end] for line in wrapper.lines)
    assert held == text.lstrip(" \n")


def test_words_stay_whole_and_hanging_spaces_do_not_indent() -> None:
    wrapper = Wrapper(10)
    wrapper.reset("one two three  four")
    shown = [wrapper.shown(index).rstrip() for index in range(len(wrapper.lines))]
    assert shown == ["one two", "three", "four"]


def test_the_line_of_a_character() -> None:
    wrapper = Wrapper(10)
    wrapper.reset("one two three four")
    assert [wrapper.line_of(offset) for offset in (0, 7, 8, 17, 99)] == [0, 0, 1, 1, 1]
