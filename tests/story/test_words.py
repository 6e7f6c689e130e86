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
        ("ปี ๒๕๖๐ ครับ", 3),  # two letters and four, and a number
        ("ກິນເຂົ້າ", 2),
        ("ខ្ញុំទៅផ្ទះ។", 2),  # Khmer and Burmese: five
        ("မြန်မာစာ။", 2),
        ("កក\u200bកកក", 1),  # of what is left, half a word or more
    ],
)
def test_what_counts_as_a_word(text: str, words: int) -> None:
    assert count(text).words == words


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("Some", "one", " ran"), 2),
        (("Some ", "one", "\u2014", "ran"), 3),
        (("「やっと", "来た」", "ran"), 6),
        ((" ", "...", "a", "", "b"), 1),
    ],
)
def test_a_word_on_both_sides_of_an_edge_is_one(texts: tuple[str, ...], words: int) -> None:
    assert Count.total(map(count, texts)).words == words == count("".join(texts)).words
