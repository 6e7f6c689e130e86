"""Words add up over any pieces, and units end where a reader says."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from srbwriter.story.words import Count, count

TEXT = st.text(alphabet="ab '\"-\u2014\n.é_", max_size=30)


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
    assert Count.total(map(count, ("กก", "a", " กก"))).words == 2
    assert Count.total(map(count, ("กก", "ကကက"))).words == 1  # half a word, and three fifths of one
