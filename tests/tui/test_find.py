"""Finding words: from place to place, round at the end, and never a letter changed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story import Edit
from srbwriter.story.diff import apply_edits
from srbwriter.tui.story.find import FindBar, Finder
from srbwriter.tui.write.story_editor import View
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
        expected = [(11, "captain"), (27, "Captain"), (TEXT.rindex("captain") + 7, "captain")]
        for turn, place in enumerate([*expected, expected[0]]):
            assert shown(bench) == place
            assert f"{turn % 3 + 1} of 3" in visible(bench)
            await bench.press("enter")
        await bench.press("up")
        await bench.press("up")
        assert shown(bench) == expected[2]
        await bench.press("up")
        assert shown(bench) == expected[1]
        await bench.press("tab", "enter")
        assert bench.screen.editor.text == TEXT[:27] + "\n" + TEXT[27:]
        await bench.press("ctrl+z", "ctrl+f", "enter")
        assert bench.screen.editor.selected_text.casefold() == "captain"


async def test_escape_goes_back_to_the_place_and_tab_stays_at_the_match(open_bench: OpenBench) -> None:
    text = "Rain fell on the harbour.\n" * 5000 + "The beacon.\n" + "Rain again.\n" * 5000
    async with open_bench(text) as bench:
        editor = bench.screen.editor
        editor.go(400)
        await bench.settle()
        before = editor.view
        await bench.press("ctrl+f", *"beacon", "enter")
        assert editor.selected_text == "beacon" and "The beacon." in visible(bench)
        await bench.press("escape")
        assert editor.view == before and editor.whole == text
        await bench.press("ctrl+f", *"beacon", "tab", *"s")
        assert editor.whole == text.replace("beacon", "beacons")


async def replacing(bench: Bench, words: str, by: str) -> None:
    bench.screen.run("replace")
    await bench.pilot.pause()
    await bench.press(*words, "tab", *by)


async def test_a_replaced_word_is_the_writers_and_the_others_stay_the_models(open_bench: OpenBench) -> None:
    async with open_bench(
        "It rained.", settings={"instruments.colour_tokens": "author"}, started=12
    ) as bench:
        await bench.press("enter")
        text = bench.session.text()
        word = max(text[len("It rained.") :].split(), key=len)
        await replacing(bench, word, "lantern")
        await bench.press("enter", "escape")
        at = text.index(word)
        assert bench.session.text() == text[:at] + "lantern" + text[at + len(word) :]
        story = bench.session.story
        spans = [span for node in story.nodes(story.path(story.current)) for span in node.spans]
        authors = [span.author for span in spans for _ in span.text]
        assert set(authors[at : at + len("lantern")]) <= {"writer", "edited"}
        assert authors[len("It rained.") : at] == ["model"] * (at - len("It rained."))
        assert set(authors[at + len("lantern") :]) == {"model"}
        shown = bench.screen.editor.provenance
        assert shown is not None
        assert [
            author for start, end, author in shown.between(0, shown.length) for _ in range(start, end)
        ] == authors


async def test_replacing_all_keeps_the_place_and_what_is_in_view(open_bench: OpenBench) -> None:
    async with open_bench("The lamp was out.\n" * 300) as bench:
        editor = bench.screen.editor
        editor.go(100 * 18 + 5)
        await bench.settle()
        top = editor.scroll_offset.y
        await replacing(bench, "lamp", "lantern")
        await bench.press("alt+a")
        assert "Replaced in 300 places." in bench.screen.status_line.line
        assert (editor.cursor_location[0], editor.scroll_offset.y) == (100, top)


@given(
    st.text("ab", max_size=30), st.text("ab", min_size=1, max_size=2), st.text("xy", max_size=3), st.data()
)
def test_a_view_stays_at_its_letters_when_others_are_replaced(
    text: str, words: str, by: str, data: st.DataObject
) -> None:
    finder = Finder(text)
    finder.search(words, case=True)
    place = data.draw(st.integers(0, len(text)))
    edits = finder.edits(by)
    after = View(place, place, place).after(edits).end
    assert 0 <= after <= len(apply_edits(text, edits))
    if not any(edit.start < place < edit.end for edit in edits):
        behind = [Edit(e.start - place, e.end - place, by) for e in edits if e.start >= place]
        assert apply_edits(text, edits)[after:] == apply_edits(text[place:], behind)


@pytest.mark.full
async def test_the_same_key_finds_again_and_other_words_begin_anew(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        await bench.press("ctrl+f", *"captain", "ctrl+f", "ctrl+f")
        assert "3 of 3" in visible(bench)
        await bench.press(*" Mara")
        assert bench.screen.editor.selected_text == "Captain Mara"
        await bench.press(*" Celeste", "enter")
        assert bench.screen.editor.selected_text == ""  # those are not there
        assert "not in the story" in visible(bench)


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
    count = finder.search(words, case, whole)
    pattern = rf"(?<!\w){re.escape(words)}(?!\w)" if whole else re.escape(words)
    expected, times = re.subn(pattern, lambda _: "<->", text, flags=0 if case else re.IGNORECASE)
    replaced = apply_edits(text, finder.edits("<->"))
    assert (replaced, count) == (expected, times)
    assert replaced.count("<->") == count


@pytest.mark.full
async def test_find_and_replace_agree(open_bench: OpenBench) -> None:
    async with open_bench("The captain slept. Captains do. CAPTAIN!") as bench:
        await bench.press("ctrl+f", *"Captain")
        assert "1 of 3" in visible(bench)
        await bench.press("alt+w")
        assert "2 found · whole words" in visible(bench)
        await bench.press("enter", "escape")
        bench.screen.run("replace")
        await bench.pilot.pause()
        assert "2 found · whole words" in visible(bench)  # as it was looked for before
        await bench.press("tab", *"mate")
        assert "captainmate slept." in visible(bench)  # the old word is struck out
        await bench.press("alt+a")
        assert bench.session.text() == "The mate slept. Captains do. mate!"
        assert "Replaced in 2 places." in bench.screen.status_line.line
        await bench.press("ctrl+z")
        assert "CAPTAIN!" in bench.session.text()
        await bench.press("ctrl+f", "alt+c", "alt+w", *"captain")
        assert "1 of 1 · case" in visible(bench)


def forwards(finder: Finder, words: str) -> list[tuple[int, int]]:
    """Every place of ``words``, each with its number, until the first one comes again."""
    count = finder.search(words)
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
