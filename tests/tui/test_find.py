"""Finding words: from place to place, round at the end, and never a letter changed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.tui.screens.find import FindBar, Finder
from tests.tui.conftest import Bench, OpenBench
from tests.tui.scenarios.common import opened, visible

TEXT = "The captain slept.\n\nCaptain Mara did not. No captain does."


def shown(bench: Bench) -> tuple[int, str]:
    """Where the selection ends, and what it holds."""
    return bench.screen.editor.place, bench.screen.editor.selected_text


async def test_enter_goes_from_place_to_place_and_changes_nothing(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        await bench.press("ctrl+f", *"Captain")
        await opened(bench, FindBar)
        assert "3 found" in visible(bench)
        expected = [(11, "captain"), (27, "Captain"), (TEXT.rindex("captain") + 7, "captain")]
        for turn, place in enumerate([*expected, expected[0]]):
            await bench.press("enter")
            assert shown(bench) == place
            assert f"{turn % 3 + 1} of 3" in visible(bench)
        await bench.press("up")
        assert shown(bench) == expected[2]
        await bench.press("up")
        assert shown(bench) == expected[1]
        await bench.press("escape", "enter")
        assert bench.screen.editor.text == TEXT[:27] + "\n" + TEXT[27:]
        await bench.press("ctrl+z", "ctrl+f", "enter")
        assert bench.screen.editor.selected_text.casefold() == "captain"


@pytest.mark.full
async def test_the_same_key_finds_again_and_other_words_begin_anew(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        await bench.press("ctrl+f", *"captain", "ctrl+f", "ctrl+f")
        assert "2 of 3" in visible(bench)
        await bench.press(*" Mara", "enter")
        assert bench.screen.editor.selected_text == "Captain Mara"
        await bench.press(*" Celeste", "enter")
        assert bench.screen.editor.selected_text == "Captain Mara"  # those are not there, and it stays
        assert "not in the story" in visible(bench)


async def test_a_place_far_off_in_a_long_story_is_brought_into_view(open_bench: OpenBench) -> None:
    text = "Rain fell on the harbour.\n" * 8000 + "The beacon.\n" + "Rain again.\n" * 8000
    async with open_bench(text) as bench:
        await bench.press("ctrl+f", *"beacon", "enter")
        assert bench.screen.editor.selected_text == "beacon"
        assert "The beacon." in visible(bench)


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [("Straße STRASSE straße", "straße", [(0, 6), (15, 21)]), ("İİ ab", "ab", [(3, 5)]),
     ("a.b axb", "a.b", [(0, 3)]), ("ΟΔΟΣΑ οδος", "ΟΔΟΣ", [(0, 4), (6, 10)]), ("Waſſer", "ss", [(2, 4)]),
      ("aaa", "aa", [(0, 2)]), ("abc", "", []), ("abc", "d", [])],
)  # fmt: skip
def test_places_are_those_of_the_text_as_it_is(text: str, words: str, found: list[tuple[int, int]]) -> None:
    assert forwards(Finder(text), words) == found


@given(st.text("aAbİß .\n", max_size=60), st.text("aAbİß.", min_size=1, max_size=2))
def test_both_ways_round_meet_every_place(text: str, words: str) -> None:
    finder = Finder(text)
    found = forwards(finder, words)
    assert [text[start:end].lower() for start, end in found] == [words.lower()] * len(found)
    assert found == [m.span() for m in re.finditer(re.escape(words), text, re.IGNORECASE)]
    if len(set(words.lower())) > 1:  # places that overlap are others from behind
        back: list[tuple[int, int]] = []
        place = finder.before(len(text))
        while place is not None and place not in back:
            back.append(place)
            place = finder.before(place[0])
        assert back == found[::-1]


@given(
    st.text("aAbİß .", max_size=60), st.text("aAbß.", min_size=1, max_size=2), st.booleans(), st.booleans()
)
def test_what_is_counted_is_what_is_replaced(text: str, words: str, case: bool, whole: bool) -> None:
    finder = Finder(text)
    count = finder.look(words, case, whole)
    pattern = rf"(?<!\w){re.escape(words)}(?!\w)" if whole else re.escape(words)
    expected, times = re.subn(pattern, lambda _: "<->", text, flags=0 if case else re.IGNORECASE)
    assert (finder.replaced("<->"), count) == (expected, times)
    assert finder.replaced("<->").count("<->") == count


@pytest.mark.full
async def test_find_and_replace_agree(open_bench: OpenBench) -> None:
    async with open_bench("The captain slept. Captains do. CAPTAIN!") as bench:
        await bench.press("ctrl+f", *"Captain")
        assert "3 found" in visible(bench)
        await bench.press("alt+w")
        assert "2 found · whole words" in visible(bench)
        await bench.press("enter", "escape")
        bench.screen.run("replace")
        await bench.pilot.pause()
        assert "2 found · whole words" in visible(bench)  # as it was looked for before
        await bench.press("tab", *"mate")
        assert "replaces 2 places: …" in visible(bench)
        await bench.press("enter")
        assert bench.session.text() == "The mate slept. Captains do. mate!"
        assert "Replaced in 2 places." in bench.screen.status_line.line
        await bench.press("ctrl+z")
        assert "CAPTAIN!" in bench.session.text()
        await bench.press("ctrl+f", "alt+c", "alt+w", *"captain")
        assert "2 found · case" not in visible(bench) and "1 found · case" in visible(bench)


def forwards(finder: Finder, words: str) -> list[tuple[int, int]]:
    """Every place of ``words``, each with its number, until the first one comes again."""
    count = finder.look(words)
    found: list[tuple[int, int]] = []
    place = finder.after(0)
    while place is not None and place not in found:
        found.append(place)
        assert finder.number(place[0]) == len(found)
        place = finder.after(place[1])
    assert count == len(found)
    return found


@pytest.mark.full
async def test_what_a_replacement_makes_is_seen_on_80_columns(open_bench: OpenBench) -> None:
    before, behind = "Nobody on the quay said a single", "about the wind for weeks on end."
    async with open_bench(f"{before} word {behind}", size=(80, 24)) as bench:
        bench.screen.run("replace")
        await bench.pilot.pause()
        await bench.press(*"word", "tab", *"syllable")
        assert "wordsyllable about" in visible(bench)
