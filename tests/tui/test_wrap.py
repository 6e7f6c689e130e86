"""Soft wrapping: growing text wraps as it would all at once, and no line is too wide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from srbwriter.tui.widgets.wrap import Wrapper

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
