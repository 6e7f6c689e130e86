"""Words add up over any pieces, and units end where a reader says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.prose import Unit
from srbwriter.story.words import NOTHING, Count, count, end_of

TEXT = st.text(alphabet="ab '\"-\u2014\n.é_", max_size=30)


@given(st.lists(TEXT, max_size=6))
def test_counts_of_pieces_add_up(pieces: list[str]) -> None:
    total = NOTHING
    for piece in pieces:
        total += count(piece)
    assert total == count("".join(pieces))


@given(st.lists(st.tuples(TEXT, st.integers(1, 2000)), max_size=6), st.integers(0, 40_000), TEXT)
def test_a_long_text_counts_as_its_characters_do(
    parts: list[tuple[str, int]], place: int, inserted: str
) -> None:
    text = "".join(part * times for part, times in parts)
    for known in (text, text[:place] + inserted + text[place:]):
        pieces = re.split(r"[\s\u2012-\u2015]+", known)
        assert count(known).words == sum(any(c.isalnum() for c in piece) for piece in pieces)


@given(TEXT)
def test_edges_survive_being_a_number(text: str) -> None:
    made = count(text)
    assert Count.of_edges(made.words, made.edges) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("one", 1),
        ("it's not\u2014well\u2014it", 4),
        ("... --- '\"'", 0),
        ("3 men\n\nleft.", 3),
        ("\u00e9t\u00e9", 1),
    ],
)
def test_what_counts_as_a_word(text: str, words: int) -> None:
    assert count(text).words == words


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
    ],
)
def test_units_end(text: str, unit: Unit, times: int, taken: str) -> None:
    assert text[: end_of(text, unit, times=times)] == taken
