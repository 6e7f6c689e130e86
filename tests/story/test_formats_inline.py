"""Emphasis in a paragraph, read and written."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story.formats.inline import Inline, inlines, marked

TEXT = st.text(st.sampled_from("ab *_\\\n\"'#.é(—`[<&"), max_size=14)
PARTS = st.lists(st.builds(Inline, TEXT, st.booleans(), st.booleans()), max_size=6)


def words(parts: list[Inline]) -> str:
    return "".join(part.text for part in parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a *b* c", [Inline("a "), Inline("b", True), Inline(" c")]),
        ("_b_ and __c__", [Inline("b", True), Inline(" and "), Inline("c", strong=True)]),
        ("***both***", [Inline("both", True, True)]),
        ("*a **b** c*", [Inline("a ", True), Inline("b", True, True), Inline(" c", True)]),
        ("*two\nlines*", [Inline("two\nlines", True)]),
        ("5 * 3 * 2, snake_case_name", [Inline("5 * 3 * 2, snake_case_name")]),
        (r"\*no\* C:\dir", [Inline(r"*no* C:\dir")]),
        ("un*frigging*real", [Inline("un"), Inline("frigging", True), Inline("real")]),
        ("*open", [Inline("*open")]),
        ("`*a*` [b](c) <i> &amp;", [Inline("`"), Inline("a", True), Inline("` [b](c) <i> &amp;")]),
        ("line\\\nend \0 \r", [Inline("line\\\nend \0 \r")]),
        ("", []),
    ],
)
def test_emphasis_is_read_by_the_rules_of_commonmark(text: str, parts: list[Inline]) -> None:
    assert inlines(text) == parts


@settings(max_examples=125)
@given(PARTS)
def test_marks_never_change_a_word(parts: list[Inline]) -> None:
    assert words(inlines(marked(parts).text)) == words(parts)


@given(st.lists(st.builds(Inline, st.sampled_from(["so", "it was", "é,"]), st.booleans(), st.booleans())))
def test_words_with_spaces_between_them_keep_their_looks(parts: list[Inline]) -> None:
    spaced = [part for word in parts for part in (word, Inline(" "))]
    groups = groupby(spaced, lambda part: (part.emphasis, part.strong))
    assert inlines(marked(spaced).text) == [Inline(words(list(group)), *look) for look, group in groups]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([Inline("a "), Inline(" b ", True), Inline("c")], "a  *b* c"),
        ([Inline("5 * 3 "), Inline("x", True)], "5 * 3 *x*"),
        ([Inline("*no* "), Inline("yes", True)], r"\*no\* *yes*"),
        ([Inline("*a* b_c 5 * 3")], r"\*a\* b_c 5 * 3"),
        ([Inline("a", True), Inline("b", True, True), Inline("c", True)], "*a**b**c*"),
        ([Inline("bold", strong=True), Inline("slanted", True)], "**bold***slanted*"),
        ([Inline("x"), Inline('"No,"', True), Inline("he")], 'x"*No*,"he'),
        ([Inline(" ", True)], " "),
    ],
)
def test_marks_stand_as_close_to_the_words_as_they_must(parts: list[Inline], text: str) -> None:
    assert marked(parts) == (text, True)


def test_emphasis_that_no_marks_can_say_is_given_up_and_told() -> None:
    parts = [Inline("a"), Inline("b", True), Inline("c", True, True), Inline("d", False, True)]
    assert marked(parts) == ("abcd", False)
