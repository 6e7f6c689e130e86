"""Common beginnings and ends, against a look at every character."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story.diff import hunks, same_end, same_start

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


WORDS = st.lists(st.sampled_from(["a", "fox", "hen", "ran", " ", ". ", "\n"]), max_size=40).map("".join)


def patched(old: str, new: str) -> str:
    """``old`` with the hunks between the two, which must be in order and apart."""
    text, before = old, len(old)
    for start, stop, words in reversed(hunks(old, new)):
        assert start <= stop <= before and (start < stop or words)
        text, before = text[:start] + words + text[stop:], start
    return text


@given(WORDS | TEXT, WORDS | TEXT)
def test_hunks_make_one_text_of_the_other(old: str, new: str) -> None:
    assert patched(old, new) == new


@given(st.lists(st.integers(0, 399), max_size=30), st.sampled_from(["", "Ann", "a cat and ", "Nell"]))
def test_every_change_far_from_the_next_is_a_hunk_of_its_own(places: list[int], name: str) -> None:
    sentences = [f"On day {number} the girl Nell went to see the king. " for number in range(400)]
    new = [s.replace("Nell", name) if n in places else s for n, s in enumerate(sentences)]
    found = hunks("".join(sentences), "".join(new))
    assert len(found) == (0 if name == "Nell" else len(set(places)))
    assert patched("".join(sentences), "".join(new)) == "".join(new)


def test_a_book_rewritten_is_told_apart_in_a_moment() -> None:
    old, new = (" ".join(f"{word}{n * n % 7919}" for n in range(40_000)) for word in ("old", "new"))
    assert patched(old, new) == new
    began = time.process_time()
    hunks(old, new)
    assert time.process_time() - began < 10  # half a second here
