"""Which lorebook entries a text calls for, and what bad keys do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story.context import keys_from, keys_text, scan
from srbwriter.story.model import LoreEntry


def calls(entry: LoreEntry, text: str) -> bool:
    return scan([entry], text)[0] == {"e"}


def entry(*keys: str, **more: object) -> LoreEntry:
    return LoreEntry("e", text="Lore.", keys=list(keys), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "text", "hit"),
    [
        ("dragon", "A Dragon!", True),
        ("dragon", "dragonfly", True),
        ("dragon", "drag on", False),
        ("STRASSE", "eine Straße", True),
        (" mill ", "the mill", True),
        ("a.c", "abc", False),
        ("a.c", "an a.c here", True),
        ("/a.c/", "abc", True),
        ("/drag(on|gle)/i", "DRAGGLE", True),
        ("/drag/", "DRAG", False),
        ("/^two/m", "one\ntwo", True),
        ("/one.two/s", "one\ntwo", True),
        (r"/a\/b/", "a/b", True),
        ("/caf\\w/gu", "café", True),
        (r"/\d{4}-\d{2}/", "on 1984-04", True),
        ("/.{0,200}word.{0,200}/", "a word", True),
        ("/a/q", "bab", False),  # no flag of a pattern: the words themselves
        ("/a/q", "on /a/q", True),
        ("", "anything", False),
        ("  ", "any thing", False),
    ],
)
def test_keys(key: str, text: str, hit: bool) -> None:
    assert calls(entry(key), text) is hit


@pytest.mark.parametrize(
    ("asked", "text", "hit"),
    [
        (entry("and/or"), "this and/or that", True),  # a slash alone is no regular expression
        (entry("Mill", case_sensitive=True), "the mill", False),
        (entry("mill", whole_words=True), "a miller", False),
        (entry("mill", whole_words=True), "the mill.", True),
        (entry("龙", whole_words=True), "他见到龙了", True),  # where nothing parts words
        (entry("ข้าว", whole_words=True), "กินข้าวกับแม่", True),
        (entry("mill", whole_words=True), "去mill吧", True),
        (entry("mill", whole_words=True), "去miller吧", False),
        (entry("T恤", whole_words=True), "一件T恤衫", True),
        (entry("T恤", whole_words=True), "一件XT恤衫", False),
        (entry(constant=True), "", True),
        (entry(constant=True, enabled=False), "", False),
        (LoreEntry("e", constant=True), "", False),
    ],
)
def test_what_calls_for_an_entry(asked: LoreEntry, text: str, hit: bool) -> None:
    assert calls(asked, text) is hit


def test_keys_are_looked_for_only_as_far_back_as_the_depth() -> None:
    text = "mill" + "." * 100
    assert calls(entry("mill"), text)
    assert not calls(entry("mill", scan_depth=100), text)
    assert calls(entry("mill", scan_depth=104), text)
    assert scan([entry("mill")], text, scan_depth=50)[0] == set()
    assert not calls(entry("mill", scan_depth=0), text)


@pytest.mark.parametrize("key", ["/(/", "/[z-a]/", "/" + "(" * 490 + ")" * 490 + "/"])
def test_unusable_keys_are_reported_and_the_others_still_work(key: str) -> None:
    active, [problem] = scan([entry(key, "mill")], "the mill")
    assert active and key in problem


def test_a_pattern_that_would_search_for_ages_is_given_up() -> None:
    slow = "/(?:a|a|aa)+b/"
    active, [problem] = scan([entry(slow), LoreEntry("good", text="x", keys=["mill"])], "a" * 5000 + " mill")
    assert slow in problem and "timed out" in problem
    assert active == {"good"}


@pytest.mark.parametrize(
    "pattern", ["a{9999999}", "((((a{500}){500}){500}){500})", "(?:[a]{1,9}{999999})", r"(\w{300,}){300}"]
)
def test_patterns_that_would_eat_the_memory_are_not_compiled(pattern: str) -> None:
    active, [problem] = scan([entry(f"/{pattern}/")], "aaaa")
    assert not active and "multiply" in problem


@given(
    st.lists(
        st.text(st.characters(exclude_characters="/")).filter(lambda key: key == key.strip() != "")
        | st.sampled_from([r"\,", "a\\b,", "/a,b/i", r"/a\,b\\/", "a/b", "and/or, or"]),
        max_size=4,
    ).filter(lambda keys: not any(key.endswith("\\") for key in keys))
)
def test_keys_in_one_line_are_the_same_keys_again(keys: list[str]) -> None:
    assert keys_from(keys_text(keys)) == keys


def test_a_pattern_is_shown_as_it_is_typed() -> None:
    assert keys_text(["/ki.g,s/", "Smith, John"]) == r"/ki.g,s/, Smith\, John"


def test_a_pattern_may_be_typed_with_its_commas() -> None:
    assert keys_from(r"Smith\, John, mill,, /far,? away{1,2}/i") == [
        "Smith, John",
        "mill",
        "/far,? away{1,2}/i",
    ]
