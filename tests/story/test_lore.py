"""Which lorebook entries a text calls for, and what bad keys do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story.lore import (
    DEFAULT_SCAN_DEPTH,
    MAX_PATTERN,
    LoreKeyError,
    compile_key,
    expanded_size,
    is_regex,
    keys_from,
    keys_text,
    reach,
    scan,
)
from srbwriter.story.model import LoreEntry, has_secondary_keys, settings_from, settings_text
from tests.sizes import examples


def calls(entry: LoreEntry, text: str) -> bool:
    return bool(scan([entry], text).active)


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


def test_slashes_around_nothing_are_no_regular_expression() -> None:
    assert not is_regex("/") and not is_regex("//") and not is_regex("and/or")


def test_keys_are_looked_for_only_as_far_back_as_the_depth() -> None:
    text = "mill" + "." * 100
    assert calls(entry("mill"), text)
    assert not calls(entry("mill", scan_depth=100), text)
    assert calls(entry("mill", scan_depth=104), text)
    assert not scan([entry("mill")], text, scan_depth=50).active
    assert not calls(entry("mill", scan_depth=0), text)


def test_reach_is_the_deepest_scan() -> None:
    assert reach([]) == 0
    assert reach([entry("a")]) == DEFAULT_SCAN_DEPTH
    assert reach([entry("a", scan_depth=9), entry("b")], 5) == 9


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("/(/", "not a regular expression"),
        ("/a/q", "unknown flag 'q'"),
        ("/" + "a" * (MAX_PATTERN + 1) + "/", "longer than"),
        ("/" + "(" * 490 + ")" * 490 + "/", "not a regular expression"),
    ],
)
def test_unusable_keys_are_reported_and_the_others_still_work(key: str, reason: str) -> None:
    found = scan([entry(key, "mill")], "the mill")
    assert found.active
    (problem,) = found.problems
    assert (problem.entry_id, problem.key) == ("e", key)
    assert reason in problem.reason


def test_a_pattern_that_would_search_for_ages_is_given_up() -> None:
    slow = "/(?:a|a|aa)+b/"
    found = scan([entry(slow), LoreEntry("good", text="x", keys=["mill"])], "a" * 5000 + " mill")
    assert [problem.key for problem in found.problems] == [slow]
    assert "longer than" in found.problems[0].reason
    assert [active.id for active in found.active] == ["good"]


def test_many_slow_patterns_share_one_time_limit() -> None:
    entries = [LoreEntry(str(index), text="x", keys=["/(?:a|a|aa)+b/"]) for index in range(200)]
    found = scan(entries, "a" * 5000)
    assert len(found.problems) == 200
    assert any("used up" in problem.reason for problem in found.problems)


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("abc", 3),
        (r"\d{4}-\d{2}", 7),
        ("(ab){3}", 6),
        ("((a{5}){5}){5}", 125),
        ("[a{9}(]{3}", 3),
        (r"\({3}a", 4),
        (".{0,200}word.{0,200}", 6),
        ("a{2}b{3}", 5),
        ("(a|b)*{2", 6),
        ("", 0),
    ],
)
def test_the_size_of_a_pattern_with_its_counts_written_out(pattern: str, size: int) -> None:
    assert expanded_size(pattern) == size


@pytest.mark.parametrize(
    "pattern", ["a{9999999}", "((((a{500}){500}){500}){500})", "(?:[a]{1,9}{999999})", r"(\w{300,}){300}"]
)
def test_patterns_that_would_eat_the_memory_are_not_compiled(pattern: str) -> None:
    with pytest.raises(LoreKeyError, match="multiply"):
        compile_key(f"/{pattern}/")


@settings(max_examples=examples(200), deadline=None)
@given(
    pattern=st.text(alphabet="ab()[]{}*+?|\\.^$19,", max_size=20), flags=st.text(alphabet="imsgx", max_size=2)
)
def test_any_pattern_compiles_or_says_why(pattern: str, flags: str) -> None:
    key = f"/{pattern}/{flags}"
    if not is_regex(key):
        return
    try:
        compile_key(key)
    except LoreKeyError as error:
        assert str(error)
    scan([entry(key)], "abab")


@given(
    st.lists(st.text() | st.sampled_from(['"', ",", "/a,b/i", "/", '"a"', '"a", b', " a", "a\n"]), max_size=4)
)
def test_keys_in_one_line_are_the_same_keys_again(keys: list[str]) -> None:
    assert keys_from(keys_text(keys)) == keys


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("", []),
        (" mill , , quay,", ["mill", "quay"]),
        ('"Smith, John", mill', ["Smith, John", "mill"]),
        ('the "old" mill, quay', ['the "old" mill', "quay"]),
        ('"old" mill, quay', ['"old" mill', "quay"]),
        ('"old, mill', ['"old', "mill"]),
        ("/a{1,3}/i, /b,c", ["/a{1,3}/i", "/b", "c"]),
        (r"/a\/b,c/, d", [r"/a\/b,c/", "d"]),
    ],
)
def test_keys_as_they_are_typed(line: str, keys: list[str]) -> None:
    assert keys_from(line) == keys


def test_an_entry_of_an_earlier_version_keeps_its_first_keys() -> None:
    old = '{"lore": [{"id": "1", "keys": ["quay"], "secondary": ["night"], "logic": "all"}]}'
    assert settings_from(old).lore == [LoreEntry("1", keys=["quay"])] and has_secondary_keys(old)
    assert not has_secondary_keys(settings_text(settings_from(old)))
