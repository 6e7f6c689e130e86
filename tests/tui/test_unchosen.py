"""No pane is chosen after a start, a round or a pick: digits pick, and all else that is typed is text."""

from __future__ import annotations

import pytest
from textual.events import Key, Paste

from srbwriter.engine.types import BranchState
from srbwriter.prose import sentence_ends
from srbwriter.tui.keyboard import Burst
from srbwriter.tui.write import letters
from srbwriter.tui.write.branch_pane import BranchPane
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import footer, visible

TEXT = "It rained."


def chosen(bench: Bench) -> bool:
    """Whether a pane has the keys."""
    return isinstance(bench.screen.focused, BranchPane)


async def burst(bench: Bench, text: str) -> None:
    """Characters that arrive in one read."""
    bench.app.post_message(Burst([Key(character, character) for character in text]))
    await bench.settle()


BEHIND_A_PICK = [
    (("E", "v", "e", "r", "y"), 0, "Every"),
    (("K", "i", "n", "d"), 0, "Kind"),
    (("quotation_mark", "N", "o"), 0, '"No'),
    (("exclamation_mark", "at"), 0, "!@"),
    (("space", "3"), 0, " 3"),
    (("0",), 0, "0"),
    (("é",), 0, "é"),
    (("enter", "l"), 0, "\nl"),
    (("backspace", "x"), 1, "x"),
]
"""Keys, how many letters of the picked branch they erase, and what they write."""


async def test_letters_behind_a_pick_are_the_storys(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        for keys, erased, typed in BEHIND_A_PICK:
            text = bench.screen.editor.text
            await bench.write()
            await bench.on_panes()
            picked = bench.texts()[2]
            await bench.press("3", *keys)
            left = picked[: len(picked) - erased]
            begins = typed[0].isalnum() or typed[0] == '"'
            ended = not erased and begins and sentence_ends(left)[-1:] == [len(left)]
            parted = ended or (left[-1:].islower() and typed[0].isupper())
            text += left + " " * parted + typed
            assert bench.screen.editor.text == text
            assert not chosen(bench) and bench.app.screen is bench.screen
            await bench.press("2")
            assert bench.screen.editor.text == f"{text}2", "what is begun is typed on"


async def test_without_branches_digits_are_typed_and_a_new_round_leaves_the_cursor_where_it_was(
    open_bench: OpenBench,
) -> None:
    async with open_bench(TEXT) as bench:
        await bench.press("1", "9")
        assert bench.screen.editor.text == TEXT + "19"
        await bench.press("ctrl+n", "S", "o")
        assert bench.screen.editor.text == TEXT + "19So"


async def test_arrows_and_tab_choose_the_first_pane(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        for key in ("left", "right", "up", "down", "tab"):
            await bench.write()
            await bench.press("2")
            await bench.tokens(5)
            await bench.press(key)
            assert bench.screen.focused is bench.screen.grid.panes[0], key
            assert bench.screen.status_line.mode == "BRANCH 1"
            assert "▌  1 " in visible(bench), "the frame of the chosen pane"
            await bench.choose("bookmark")
            story = bench.session.story
            assert story.node(bench.session.round.node_of(0)).bookmark
            assert bench.screen.editor.text == bench.session.text()


async def test_a_click_chooses_a_pane_and_one_in_the_story_gives_it_all_keys(open_bench: OpenBench) -> None:
    async with open_bench(TEXT) as bench:
        await bench.write()
        await bench.pilot.click(bench.screen.grid.panes[1], offset=(3, 2))
        assert bench.screen.focused is bench.screen.grid.panes[1]
        await bench.press("ctrl+n")
        await bench.tokens(5)
        assert not chosen(bench)
        await bench.pilot.click(bench.screen.editor, offset=(2, 1))
        await bench.press("3")
        assert bench.screen.editor.text == "3" + TEXT


async def test_the_footer_says_what_keys_do(open_bench: OpenBench) -> None:
    async with open_bench(TEXT, size=(80, 24)) as bench:
        await bench.write()
        assert "1–9 pick ^n write" in footer(bench) and bench.screen.status_line.mode == "STORY"
        await bench.press("x")
        assert "1–9" not in footer(bench)
        await bench.press("tab")
        assert "r re-roll k kill" in footer(bench) and "part" in visible(bench)
        await bench.press("ctrl+n")
        await bench.pilot.resize_terminal(40, 12)
        await bench.settle()
        assert "1–9 pick ^n write" in visible(bench), "the narrowest window"


async def test_what_arrives_at_once_is_text_and_in_a_dialog_an_answer_or_nothing(
    open_bench: OpenBench,
) -> None:
    async with open_bench(TEXT, started=12) as bench:
        await burst(bench, "kg2")
        assert bench.screen.editor.text == TEXT + "kg2" and not chosen(bench)
        await bench.on_panes()
        bench.app.post_message(Paste(" 3"))
        await bench.settle()
        assert bench.screen.editor.text == TEXT + "kg2 3"
        assert len(bench.session.round.branches) == 4
        await bench.on_panes()
        await burst(bench, "ww")
        pane = bench.screen.grid.pane
        assert chosen(bench) and pane is not None and pane.take, "a held key is a command"
        await bench.press("ctrl+n")
        await bench.tokens(3)
        await burst(bench, "12")
        assert bench.screen.editor.text == TEXT + "kg2 312"
        await bench.press("ctrl+f")
        await burst(bench, "rain")
        assert bench.app.screen.query("Input").first().value == "rain"  # type: ignore[attr-defined]
        await bench.press("escape", "f3")
        tree = bench.app.screen
        await burst(bench, "xx")
        assert bench.app.screen is tree and not bench.session.story.bin()
        assert "Press one key at a time" in bench.last_said


PROSE = [
    ("T", ""), ("é", ""), ("h", ""), ("sed", ""), ("rew", ""), ("dew", ""), (" so", ""), ("ww", "ww"),
    ("d", "d"),
]  # fmt: skip
"""What is typed on a chosen branch within half a second, and how much of it is commands."""


async def test_a_capital_or_the_third_of_different_letters_is_prose_and_all_of_them_enter_the_story(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_WINDOW", "_WAIT"):
        monkeypatch.setattr(letters, name, 60.0)  # however busy the machine is
    async with open_bench(TEXT, started=20) as bench:
        before, text = bench.texts(), TEXT
        for typed, commands in PROSE:
            await bench.on_panes()
            keys = ["space" if letter == " " else letter for letter in typed]
            await bench.pilot.press(*keys)
            await bench.settle()
            pane = bench.screen.grid.panes[0]
            text += "" if commands else typed
            assert bench.screen.editor.text == text, typed
            assert (pane.take is not None) == bool(commands), typed
            assert chosen(bench) == bool(commands), typed
            if commands:
                await bench.press("escape")
            else:
                assert "your words went into the story" in bench.last_said
        assert bench.texts() == before and not any(
            branch.state is BranchState.PAUSED for branch in bench.session.round.branches
        ), "taken back"


async def test_a_digit_counts_for_a_branch_that_has_stood_and_what_follows_a_refused_pick_is_prose(
    open_bench: OpenBench,
) -> None:
    async with open_bench(TEXT) as bench:
        await bench.press("ctrl+n")
        await bench.on_panes()
        await bench.press("1", *"seed")
        assert "has no words yet" in bench.said and bench.screen.editor.text == TEXT + "seed"
        await bench.press("ctrl+n")
        bench.session.step(5)
        bench.screen.pump.flush()
        await bench.pilot.press("1")
        assert "only just appeared" in bench.last_said and bench.session.text() == TEXT + "seed"
        await bench.settle()
        await bench.press("1")
        assert bench.session.text() != TEXT + "seed"
