"""Where sentences, paragraphs and words of a whole text end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.prose import (
    Scanner,
    Unit,
    last_sentence_start,
    unit_ends,
    word_ends,
)

prose = st.lists(
    st.sampled_from(
        [*"aBI3 \n.!?…。\"')", "Mr.", "...", "\n\n", "etc.", "界", "p.m.", "ประตูประภาคาร", " แต่", " แ", "ๆ"]
    ),
    max_size=30,
).map("".join)


def cut(text: str, ends: list[int]) -> list[str]:
    return [text[a:b] for a, b in pairwise([0, *ends, len(text)])]


def test_paragraph_ends() -> None:
    text = "\n\none\ntwo\n \nthree\n\n\n\nfour \n"
    assert cut(text, Scanner("paragraph").feed(text)) == ["\n\none\ntwo", "\n \nthree", "\n\n\n\nfour \n"]
    assert not Scanner("paragraph").feed(" \n\n ")


def test_word_ends() -> None:
    text = " It's  a “test”, well-known end "
    assert cut(text, word_ends(text)) == [" It's", "  a", " “test”,", " well-known", " end", " "]


@pytest.mark.parametrize(
    "words",
    [
        ["他", "把", "灯", "塔", "的", "门", "推", "开，", "“你", "来", "了。”", ""],
        ["「や", "っ", "と」", ""],
        ["เ", "ข้", "า", " ม", "า", ""],
        [" Use", " the", "手", "机", "iPhone-15", " now", ""],
        ["他\u200b", "们……", ""],
    ],
)
def test_without_spaces_a_character_with_its_marks_is_a_word(words: list[str]) -> None:
    text = "".join(words)
    assert cut(text, word_ends(text)) == words


scripts = st.text(alphabet="a'- \n“”「」。（！界灯塔の閉めกินข้ามาຂខ្មមြန်\u200b\U00020bb7\ud800", max_size=40)


@given(scripts)
def test_words_take_up_the_whole_text(text: str) -> None:
    ends = word_ends(text)
    assert all(a < b for a, b in pairwise(ends))
    assert (ends[-1] if ends else 0) == len(text.rstrip())
    assert all(text[a:b].strip() and not text[b - 1].isspace() for a, b in pairwise([0, *ends]))
    assert not any(text[end : end + 1] in "」”。" for end in ends if end < len(text))
    bare = "".join("x" if c in "界灯塔の閉めกินข้ามาຂខ្មမြန်\U00020bb7" else c for c in text)
    assert {end for end in word_ends(bare)} <= set(ends)  # words only come nearer to each other


@pytest.mark.parametrize(
    ("count", "rest"), [(0, "A a. B b. C"), (1, "A a. B b."), (2, "A a."), (3, ""), (9, "")]
)
def test_last_sentence_start(count: int, rest: str) -> None:
    text = "A a. B b. C"
    assert text[: last_sentence_start(text, count)] == rest


def test_whitespace_at_the_end_is_no_sentence() -> None:
    assert last_sentence_start("A a. B b. \n", 1) == 4


@given(prose, st.integers(1, 5))
def test_dropping_sentences_one_by_one_is_dropping_them_together(text: str, count: int) -> None:
    rest = text
    for _ in range(count):
        shorter = rest[: last_sentence_start(rest, 1)]
        assert len(shorter) < len(rest) or not rest
        rest = shorter
    assert rest == text[: last_sentence_start(text, count)]


scanners = st.sampled_from(["line", "paragraph", "sentence"])


@given(prose, st.lists(st.integers(0, 60), max_size=12), scanners)
def test_how_a_text_is_cut_up_does_not_matter(text: str, cuts: list[int], unit: Any) -> None:
    whole, parts = Scanner(unit), Scanner(unit)
    at = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    found = [end for a, b in pairwise(at) for end in parts.feed(text[a:b])]
    assert found == list(whole.feed(text))
    assert parts.held == whole.held
    assert all(a < b for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("text", "unit", "times", "taken"),
    [
        (" Once upon a time", "word", 1, " Once"),
        (" Once upon a time", "word", 3, " Once upon a"),
        ("\u201cGo!\u201d she said. Then", "sentence", 1, "\u201cGo!\u201d she said."),
        ("\u201cGo!\u201d she said. Then", "sentence", 2, "\u201cGo!\u201d she said. Then"),
        ("Mr. Fox met J. Hare. He ran.", "sentence", 1, "Mr. Fox met J. Hare."),
        ("A title\nAnd a line.", "sentence", 1, "A title"),
        ("First.\n\nSecond.\n\nThird.", "paragraph", 1, "First."),
        ("First.\n\nSecond.\n\nThird.", "paragraph", 2, "First.\n\nSecond."),
        ("no end", "sentence", 1, "no end"),
        ("no end", "paragraph", 9, "no end"),
        ("wait... what?", "sentence", 1, "wait... what?"),
        ("Wait\u2026 What?", "sentence", 1, "Wait\u2026"),
        ("他说：「你好！」然后走了。", "sentence", 1, "他说：「你好！」"),
    ],
)
def test_units_end(text: str, unit: Unit, times: int, taken: str) -> None:
    ends = unit_ends(text, unit)
    assert text[: ends[min(times, len(ends)) - 1]] == taken
