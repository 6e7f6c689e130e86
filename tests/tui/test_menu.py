"""The menu of commands, and keys that every terminal can send."""

from __future__ import annotations

import pytest
from textual import events
from textual.events import Paste
from textual.widgets import OptionList

from srbwriter.tui import commands
from srbwriter.tui.commands import COMMANDS
from srbwriter.tui.dialogs.ask import Confirm
from srbwriter.tui.dialogs.menu import Menu
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.dialogs.sheet import Sheet
from srbwriter.tui.driver import _Parser
from srbwriter.tui.key_names import shown_name
from tests.tui.conftest import Bench, OpenBench
from tests.tui.scenarios.common import opened, visible


def row(bench: Bench) -> str:
    """The highlighted row of the menu."""
    rows = bench.app.screen.query_one("#picker-list", OptionList)
    assert rows.highlighted is not None
    return str(rows.get_option_at_index(rows.highlighted).prompt).strip()


# ---- the menu


@pytest.mark.parametrize("page", ["tree", "read", "help", "find"])
async def test_the_menu_runs_a_command_from_a_page_or_dialog_which_it_closes(
    page: str, open_bench: OpenBench
) -> None:
    async with open_bench() as bench:
        bench.screen.run(page)
        await bench.settle()
        below = bench.app.screen
        await bench.press("ctrl+g")
        await opened(bench, Menu)
        await bench.press("ctrl+g")
        assert bench.app.screen is below
        await bench.press("ctrl+g", *"quiet", "enter")
        assert bench.app.screen is bench.screen and bench.screen.arrangement.quiet


async def test_a_command_of_the_menu_waits_for_the_answer_about_a_changed_text(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.choose("bans")
        sheet = await opened(bench, Sheet)
        await bench.press(*"Is it?", "ctrl+g", *"quiet", "enter")
        await opened(bench, Confirm)
        assert not bench.screen.arrangement.quiet
        await bench.press("escape")
        assert bench.app.screen is sheet


async def test_the_menu_picks_a_branch_by_its_number(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        picked = bench.texts()[1]
        await bench.press("ctrl+g", "2")
        assert row(bench) == "2        Pick branch 2"
        await bench.press("enter")
        assert bench.session.text() == "It rained." + picked


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("knobs", "Settings for writing"),
        ("author", "Author's note"),
        ("untake_p", "Take a paragraph less"),
        ("k", "Kill this branch"),
        ("f6", "Token by token"),
        ("^f", "Find"),
        ("ctrl+s", "Save now"),
        ("cliches clichés", ""),
        ("clichés", "Banned phrases"),
        ("story new", "New story"),
    ],
)
async def test_words_match_title_name_key_and_help_and_the_best_is_first(
    typed: str, title: str, open_bench: OpenBench
) -> None:
    async with open_bench(fake=True) as bench:
        await bench.press("ctrl+g")
        await bench.press(*("space" if letter == " " else letter for letter in typed))
        if title:
            assert row(bench).endswith(title)
        else:
            assert "Nothing matches" in visible(bench)
            await bench.press("enter")
            assert isinstance(bench.app.screen, Menu)


async def test_arrows_go_past_the_names_of_groups_and_escape_runs_nothing(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        await bench.press("ctrl+g")
        menu = await opened(bench, Menu)
        assert "This branch" in visible(bench)
        seen = [row(bench)]
        while not seen[-1].endswith("Take a sentence less"):
            await bench.press("down")
            seen.append(row(bench))
            assert len(seen) < 40
        assert len(set(seen)) == len(seen) and "Taking a part" in visible(bench)
        assert not {"This branch", "Taking a part"} & set(seen)
        assert COMMANDS["untake_sentence"].help in visible(bench)
        await bench.press("up")
        assert row(bench) == seen[-2]
        for key in ("escape", "ctrl+g", "ctrl+p"):
            await bench.press(key)
            assert bench.app.screen is bench.screen and bench.session.text() == "It rained.", key
            await bench.press("ctrl+p")
            assert type(bench.app.screen) is type(menu)


async def test_a_pick_forgets_which_branch_was_chosen(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.choose("kill")
        assert (
            bench.last_said
            == "“Kill this branch” is for a branch, and there is none yet. ^n writes branches."
        )
        await bench.write()
        await bench.press("right", "right", "1")
        await bench.tokens(5)
        await bench.choose("kill")
        assert "is for a chosen branch" in bench.last_said
        assert all(branch.live for branch in bench.session.round.branches)


async def test_every_command_is_found_in_the_menu_by_its_title_and_by_its_name(open_bench: OpenBench) -> None:
    async with open_bench(fake=True, n=9) as bench:
        await bench.write()
        await bench.press("ctrl+g")
        menu: Picker = await opened(bench, Menu)
        line = menu.query_one("#picker-filter")
        for command in COMMANDS.values():
            for words in (command.id, command.title):
                if command.id in ("menu", "pick_number"):
                    continue
                assert words.isascii() and words.isprintable(), "every terminal can send it"
                line.value = ""
                bench.app.post_message(Paste(words))
                await bench.pilot.pause()
                assert row(bench).endswith(command.title), words
        for number in "123456789":
            line.value = ""
            await bench.pilot.press(number)
            assert row(bench).endswith(f"Pick branch {number}")


# ---- what terminals can send

_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}
_CURSOR = dict(zip(("up", "down", "right", "left", "end", "home"), "ABCDFH", strict=True))
_TILDE = {"delete": 3, "pageup": 5, "pagedown": 6} | dict(
    zip((f"f{n}" for n in range(5, 13)), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)
)
_SINGLE = {"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " "} | {
    f"f{n}": f"\x1bO{letter}" for n, letter in enumerate("PQRS", 1)
}
SCROLLS_XTERM = {"shift+pageup", "shift+pagedown"}
"""Keys by which xterm shows what has scrolled away. They select in a text; shift with an arrow does, too."""
SAME = {"alt+backspace": "ctrl+w"}
"""Keys that send the same as another, which does the same."""


def sent_by_xterm(key: str) -> str | None:
    """Return what a plain xterm sends for a key, without the kitty protocol; None if it sends nothing."""
    *modifiers, base = key.split("+")
    number = 1 + sum(_MODIFIERS[modifier] for modifier in modifiers)
    letter = shown if len(shown := shown_name(base)) == 1 else None
    if base in _CURSOR:
        return f"\x1b[{_CURSOR[base]}" if number == 1 else f"\x1b[1;{number}{_CURSOR[base]}"
    if base in _TILDE:
        return f"\x1b[{_TILDE[base]}~" if number == 1 else f"\x1b[{_TILDE[base]};{number}~"
    if modifiers == ["ctrl"] and len(base) == 1 and base.isalpha():
        return chr(ord(base) & 31)
    plain = _SINGLE.get(base, letter)
    if plain is None or modifiers not in ([], ["alt"]):
        return None
    return f"\x1b{plain}" if modifiers else plain


def default_keys() -> set[str]:
    """Every key of every screen."""
    bindings = [binding for screen in commands.screens() for binding in commands.screen_bindings(screen)]
    found = {key for binding in bindings for key in binding.key.split(",")}
    keys = commands.Keys({})
    found |= {key for some in (*keys.plain.values(), *keys.anywhere.values()) for key in some}
    return {key for key in found if not key.startswith("no_key_")}


def test_no_default_key_is_one_that_a_plain_terminal_cannot_send_or_mixes_up() -> None:
    for key in sorted(default_keys() - SCROLLS_XTERM):
        data = sent_by_xterm(key)
        assert data is not None, f"a plain xterm cannot send {key}"
        assert key != "ctrl+h", "many terminals send it for backspace"
        assert key not in ("ctrl+j", "ctrl+m", "ctrl+i"), f"{key} is enter or tab"
        parser = _Parser()
        found = list(parser.feed(data))
        if parser._timeout_time is not None:
            parser._timeout_time = 0.0  # nothing more comes
        found += parser.tick()
        parsed = [event.key for event in found if isinstance(event, events.Key)]
        assert parsed == [SAME.get(key, key)], f"{key} is read as {parsed}"


def test_no_punctuation_is_a_default_key_of_a_branch_except_a_few() -> None:
    keys = [key for some in commands.Keys({}).plain.values() for key in some]
    signs = {sign for sign in map(shown_name, keys) if len(sign) == 1 and not sign.isalnum()}
    assert signs == set("?/+=-")
