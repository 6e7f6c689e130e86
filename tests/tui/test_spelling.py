"""Words that no list has are underlined where the writer reads, if he wants that."""

from __future__ import annotations

import sys

import pytest

from srbwriter.tui import options
from srbwriter.tui.story import spelling
from tests.tui.conftest import OpenBench


@pytest.fixture(autouse=True)
def no_words_of_other_tests(own_folders: None) -> None:
    spelling.read_again()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("The colour of his color, grey or gray", []),
        ("teh lighthouse\u2019s keeper didn\u2019t recieve it", ["teh", "recieve"]),
        ("Elowyn and Brannoch wait", []),  # names
        ("3 xqz 4", ["xqz"]),
        ("", []),
    ],
)
def test_words_are_unknown(line: str, words: list[str]) -> None:
    assert [line[start:end] for start, end in spelling.unknown(line)] == words


async def test_unknown_words_are_marked_but_not_the_one_being_typed(open_bench: OpenBench) -> None:
    async with open_bench(text="Teh teh fox", settings={"interface.spelling": True}) as bench:
        await bench.app.workers.wait_for_complete()
        editor = bench.screen.editor
        assert [(span.start, span.end) for span in editor.get_line(0).spans] == [(4, 7)]
        underlined = [s.text for s in editor.render_line(0) if s.style is not None and s.style.underline]
        assert underlined == ["teh"]
        await bench.press("space", "x", "q", "z")
        assert len(editor.get_line(0).spans) == 1
        await bench.press("space")
        assert len(editor.get_line(0).spans) == 2
        bench.app.preferences.put(options.SPELLING, False)
        bench.app.apply_preferences()
        await bench.app.workers.wait_for_complete()
        assert not any(s.style is not None and s.style.underline for s in editor.render_line(0))


async def test_without_a_word_list_the_writer_is_told(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelling.word_list.cache_clear()
    monkeypatch.setitem(sys.modules, "symspellpy", None)
    async with open_bench(settings={"interface.spelling": True}) as bench:
        await bench.app.workers.wait_for_complete()
        await bench.pilot.pause()
        assert not bench.screen.editor.spelling
        assert any("cannot be looked up" in note.words for note in bench.app.messages.all)


def test_own_words_count_whatever_ends_their_file() -> None:
    file = spelling.own_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("quayside\n\nBrae")
    spelling.learn("xqz")
    assert file.read_text() == "quayside\n\nBrae\nxqz\n"
    assert not spelling.unknown("the xqz's brae") and spelling.unknown("xqzz")


@pytest.mark.parametrize(
    ("line", "column", "word"),
    [
        ("one two", 0, "one"),
        ("one two", 3, "one"),
        ("one  two", 4, ""),
        ("it\u2019s", 2, "it\u2019s"),
        ("", 0, ""),
    ],
)
def test_the_word_at_the_cursor(line: str, column: int, word: str) -> None:
    assert spelling.word_at(line, column) == word
