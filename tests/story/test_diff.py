"""Common beginnings and ends, against a look at every character."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story.diff import same_end, same_start

TEXT = st.text(alphabet="ab\u00e9\U0001f98a", max_size=40)


def slowly(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@given(TEXT, TEXT, TEXT)
def test_texts_begin_alike_up_to_the_first_difference(start: str, a: str, b: str) -> None:
    assert same_start(start + a, start + b) == len(start) + slowly(a, b)


@given(TEXT, TEXT, TEXT, st.integers(-2, 90))
def test_texts_end_alike_up_to_the_last_difference(a: str, b: str, end: str, most: int) -> None:
    alike = len(end) + slowly(a[::-1], b[::-1])
    assert same_end(a + end, b + end, most) == max(0, min(alike, most))
