"""Words add up over any pieces, and units end where a reader says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story.words import NOTHING, Count, count

TEXT = st.text(alphabet="ab '\"-\u2014\n.é_", max_size=30)
ANY_SCRIPT = TEXT | st.text(alphabet="a1 .\u2014「」。界か゛ー々한กำิ๒ລຂ່ខ្មမြ\u200b\U00020bb7", max_size=30)


@given(st.lists(ANY_SCRIPT, max_size=6))
def test_counts_of_pieces_add_up(pieces: list[str]) -> None:
    total = NOTHING
    for piece in pieces:
        total += count(piece)
    assert total == count("".join(pieces))
    assert Count.total((made.words, made.edges) for made in map(count, pieces)) == total


@given(st.lists(st.tuples(TEXT, st.integers(1, 2000)), max_size=6), st.integers(0, 40_000), TEXT)
def test_a_long_text_counts_as_its_characters_do(
    parts: list[tuple[str, int]], place: int, inserted: str
) -> None:
    text = "".join(part * times for part, times in parts)
    for known in (text, text[:place] + inserted + text[place:]):
        pieces = re.split(r"[\s\u2012-\u2015]+", known)
        assert count(known).words == sum(any(c.isalnum() for c in piece) for piece in pieces)


@given(ANY_SCRIPT)
def test_edges_survive_being_a_number(text: str) -> None:
    made = count(text)
    assert Count.total([(made.words, made.edges)]) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("one", 1),
        ("it's not\u2014well\u2014it", 4),
        ("... --- '\"'", 0),
        ("3 men\n\nleft.", 3),
        ("\u00e9t\u00e9", 1),
        ("한국어 소설", 2),
        ("他把门推开。", 5),  # Han and kana: every character
        ("「やっと来たのね」と。", 8),
        ("東京タワー、𠮷野々", 8),
        ("他用iPhone打了3次电话", 9),  # and what stands between them
        ("“好”——好", 2),
        ("か\u3099", 1),  # a mark is part of its letter
        ("กินข้าวกับแม่", 3),  # Thai and Lao: four letters or marks are taken for a word
        ("ปี ๒๕๖๐ ครับ", 2),  # six letters, and a number
        ("ກິນເຂົ້າ", 2),
        ("ខ្ញុំទៅផ្ទះ។", 2),  # Khmer and Burmese: five
        ("မြန်မာစာ။", 1),
        ("កក\u200bកកក", 1),
    ],
)
def test_what_counts_as_a_word(text: str, words: int) -> None:
    assert count(text).words == words


def test_an_unfinished_word_is_carried_to_the_next_piece() -> None:
    assert count("กก").words == count("กก ").words == 0
    assert (count("กก") + count("a") + count(" กก")).words == 2
    assert (count("กก") + count("ကကက")).words == 1  # half a word, and three fifths of one
