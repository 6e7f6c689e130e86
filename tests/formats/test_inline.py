"""Emphasis: whatever is marked, the words are the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.formats.inline import Inline, inlines, marked

TEXTS = st.text("ab *_\\é,.\n~", max_size=6)


@settings(max_examples=100)
@given(st.lists(st.builds(Inline, TEXTS, st.booleans(), st.booleans()), max_size=6))
def test_marks_never_change_a_word(parts: list[Inline]) -> None:
    assert "".join(part.text for part in inlines(marked(parts))) == "".join(part.text for part in parts)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([Inline("a "), Inline(" b ", True), Inline("c")], "a  *b* c"),
        ([Inline("5 * 3 "), Inline("x", True)], "5 * 3 *x*"),
        ([Inline("*no* "), Inline("yes", True)], r"\*no\* *yes*"),
        ([Inline("a", True), Inline("b", True, True), Inline("c", True)], "*a**b**c*"),
        ([Inline("bold", strong=True), Inline("slanted", True)], "**bold***slanted*"),
        ([Inline("x"), Inline('"No,"', True), Inline("he")], 'x"*No*,"he'),
    ],
)
def test_marks_stand_as_close_to_the_words_as_they_must(parts: list[Inline], text: str) -> None:
    assert marked(parts) == text
