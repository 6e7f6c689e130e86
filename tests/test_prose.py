"""Where sentences, paragraphs and words of a whole text end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.prose import (
    ABBREVIATIONS,
    LineScanner,
    ParagraphScanner,
    Scanner,
    SentenceScanner,
    last_sentence_start,
    paragraph_ends,
    sentence_ends,
    word_ends,
)

prose = st.lists(
    st.sampled_from([*"aBI3 \n.!?…。\"')", "Mr.", "...", "\n\n", "etc.", "界", "p.m."]), max_size=30
).map("".join)


def cut(text: str, ends: list[int]) -> list[str]:
    return [text[a:b] for a, b in pairwise([0, *ends, len(text)])]


@pytest.mark.parametrize(
    "sentences",
    [
        ["He left.", " She stayed.", ""],
        ["No!?", " (Yes.)", " He [she?] and that was all"],
        ["“Hm…” he said.", "\n\nNext...", " \nlower case ends a line.", ""],
        ["*He waves.*", " Hello at 5 p.m. sharp.", " It was 5 p.m.", " Then it rained.", ""],
        ["Ask Dr. St. John of the U.S. Army.", " Fine.", ""],
        ["「はい。」", "と言った。", "そう！？", "ええ"],
        ["He bought pens, ink, etc.", "\nThen he left.", ""],
        ["क्या?", " हाँ।", ""],
        ["no full stop"],
        ["It was Mr...", " Jones.", " He (Mr.)", " Then"],
        ["It was Mr.!", " Then"],
        ["It ends with Mr."],
    ],
)
def test_sentence_ends(sentences: list[str]) -> None:
    text = "".join(sentences)
    assert cut(text, sentence_ends(text)) == sentences


@given(st.sampled_from(sorted(ABBREVIATIONS)))
def test_an_abbreviation_ends_no_sentence(word: str) -> None:
    text = f"It was {word}. Then"
    assert sentence_ends(text) == []
    assert sentence_ends(text.replace(".", ".\n")) != []


def test_paragraph_ends() -> None:
    text = "\n\none\ntwo\n \nthree\n\n\n\nfour \n"
    assert cut(text, paragraph_ends(text)) == ["\n\none\ntwo", "\n \nthree", "\n\n\n\nfour", " \n"]
    assert paragraph_ends(" \n\n ") == []


def test_word_ends() -> None:
    text = " It's  a “test”, 界隈 end "
    assert cut(text, word_ends(text)) == [" It's", "  a", " “test”,", " 界", "隈", " end", " "]


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


scanners = st.sampled_from([LineScanner, ParagraphScanner, SentenceScanner])


@given(prose, st.lists(st.integers(0, 60), max_size=12), scanners)
def test_how_a_text_is_cut_up_does_not_matter(text: str, cuts: list[int], kind: type[Scanner]) -> None:
    whole, parts = kind(), kind()
    at = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    found = [end for a, b in pairwise(at) for end in parts.feed(text[a:b])]
    assert found == list(whole.feed(text))
    assert parts.held == whole.held
    assert all(a < b for a, b in pairwise(found))
