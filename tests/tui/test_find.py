"""Finding words: from place to place, round at the end, and never a letter changed."""

from __future__ import annotations

from srbwriter.tui.story.find import FindBar
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import opened, visible

TEXT = "The captain slept.\n\nCaptain Mara did not. No captain does."


def shown(bench: Bench) -> tuple[int, str]:
    """Where the selection ends, and what it holds."""
    return bench.screen.editor.cursor, bench.screen.editor.selected


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
        assert bench.screen.editor.selected.casefold() == "captain"


async def test_escape_goes_back_to_the_place_and_tab_stays_at_the_match(open_bench: OpenBench) -> None:
    text = "Rain fell on the harbour.\n" * 5000 + "The beacon.\n" + "Rain again.\n" * 5000
    async with open_bench(text) as bench:
        editor = bench.screen.editor
        editor.move_to(400)
        await bench.settle()
        before = editor.view
        await bench.press("ctrl+f", *"beacon", "enter")
        assert editor.selected == "beacon" and "The beacon." in visible(bench)
        await bench.press("escape")
        assert editor.view == before and editor.text == text
        await bench.press("ctrl+f", *"beacon", "tab", *"s")
        assert editor.text == text.replace("beacon", "beacons")


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
        shown = bench.screen.editor.authors
        assert shown is not None
        found = shown.between(0, len(authors))
        assert [author for start, end, author in found for _ in range(start, end)] == authors


async def test_replacing_all_keeps_the_place_and_what_is_in_view(open_bench: OpenBench) -> None:
    async with open_bench("The lamp was out.\n" * 300) as bench:
        editor = bench.screen.editor
        editor.move_to(100 * 18 + 5)
        await bench.settle()
        before = editor.view
        await replacing(bench, "lamp", "lantern")
        await bench.press("alt+a")
        assert "Replaced in 300 places." in bench.said
        top = before[2]
        assert editor.view[1:] == (100 * 21 + len("The lantern"), top + 3 * (top // 18))
        await bench.press("ctrl+z")
        assert bench.last_said == "Undid: replaced 300 × “lamp” by “lantern”."


async def test_the_same_key_finds_again_and_other_words_begin_anew(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        await bench.press("ctrl+f", *"captain", "ctrl+f", "ctrl+f")
        assert "3 of 3" in visible(bench)
        await bench.press(*" Mara")
        assert bench.screen.editor.selected == "Captain Mara"
        await bench.press(*" Celeste", "enter")
        assert bench.screen.editor.selected == ""  # those are not there
        assert "not in the story" in visible(bench)


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
        await bench.press("alt+a")
        assert bench.session.text() == "The mate slept. Captains do. mate!"
        assert "Replaced in 2 places." in bench.said
        await bench.press("ctrl+z")
        assert "CAPTAIN!" in bench.session.text()
        await bench.press("ctrl+f", "alt+c", "alt+w", *"captain")
        assert "1 of 1 · case" in visible(bench)


async def test_signs_that_readers_take_for_alike_are_found_and_replaced(open_bench: OpenBench) -> None:
    text = "He said “don’t” – Stra\u00dfe, cafe\u0301, \u1112\u1161\u11ab\u1100\u1173\u11af, har\u00adbour."
    async with open_bench(text) as bench:
        for words in ('"don\'t" -', "strasse", "caf\u00e9", "\ud55c\uae00", "harbour"):
            bench.screen.run("find")
            await bench.pilot.pause()
            await bench.press(*words)
            assert "1 of 1" in visible(bench), words
            await bench.press("escape")
        await replacing(bench, "don't", "do")
        await bench.press("alt+a")
        assert bench.session.text() == text.replace("don’t", "do")
