"""Every command of the table does what it says: in the stored tree, in the branches, or on the screen.

Each scenario runs once with the real handlers, and once with its command's handler replaced by nothing, when
it has to fail.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from textual.keys import _character_to_key

from srbwriter.tui import commands, options
from srbwriter.tui.commands import COMMANDS
from srbwriter.tui.widgets.lines import key_name
from tests.sizes import some_of
from tests.tui import scenarios
from tests.tui.conftest import OpenBench

IDS = list(COMMANDS)


def test_every_command_has_words_and_a_scenario_and_nothing_else_has() -> None:
    assert set(scenarios.SCENARIOS) == set(IDS)
    assert all(command.title and command.help.endswith(".") for command in COMMANDS.values())


@pytest.mark.parametrize("command", some_of(IDS, IDS[::18]))
async def test_the_command_does_what_it_says(
    command: str, open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench() as bench:
        await scenarios.SCENARIOS[command](bench, monkeypatch)


@pytest.mark.parametrize("kind", options.KEYMAPS)
def test_no_key_means_two_things(kind: str) -> None:
    keys = [
        key
        for keys in (commands.Keys(kind, {}).plain, commands.Keys(kind, {}).anywhere)
        for some in keys.values()
        for key in some
    ]
    declared = [
        key
        for command in COMMANDS.values()
        for key in f"{command.keys_in(kind)},{command.anywhere}".split(",")
        if key
    ]
    assert sorted(keys) == sorted(declared)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("kind", options.KEYMAPS)
def test_a_key_of_one_character_is_shown_as_that_character(kind: str) -> None:
    keys = {key for some in commands.Keys(kind, {}).plain.values() for key in some}
    characters = {_character_to_key(char): char for char in map(chr, range(33, 127))}
    assert {key: key_name(key) for key in keys & set(characters)} == {
        key: char for key, char in characters.items() if key in keys
    }
    signs = {"^n": "ctrl+n", "F5": "f5", "pgup": "pageup", "é": "latin_small_letter_e_with_acute"}
    assert all(key_name(key) == sign for sign, key in signs.items())


def test_every_key_of_every_screen_has_a_name_for_the_settings() -> None:
    """Those of a dialog that waits for one key are what it asks, an editor's are its characters, the
    keyboard's are what a terminal sends, and the write screen's tell what is typed from commands. Variants of
    a passage are picked by the keys that pick a branch by its number."""
    read_keys = re.compile(r"event\.key (?:!=|==|in|not in)|\.get\(event\.key\)")
    files = [
        file for file in Path(commands.__file__).parent.rglob("*.py") if read_keys.search(file.read_text())
    ]
    known = {"app", "ask", "base", "keyboard", "picker", "rewriting", "screen", "story_editor"}
    assert {file.stem for file in files} == known
    for screen in commands.screens():
        declared = vars(screen).get("BINDINGS", [])
        assert declared == commands.own_bindings(screen, inherited=False), screen
        assert not declared or screen.KEYS, screen


def test_no_key_of_a_screen_means_two_things_and_no_name_two_actions() -> None:
    actions: dict[str, str] = {}
    for screen in commands.screens():
        keys = Counter(key for b in commands.own_bindings(screen) for key in b.key.split(","))
        assert not [key for key, count in keys.items() if count > 1], screen
        for binding in commands.own_bindings(screen, inherited=False):
            assert binding.id is not None and binding.id not in COMMANDS
            assert actions.setdefault(binding.id, binding.action) == binding.action
    declared = [b for some in commands.screen_commands().values() for b in some]
    assert len(declared) == len({binding.id for binding in declared})
    assert not [b.id for b in declared if b.tooltip and not b.tooltip.endswith(".")]


def test_a_key_of_the_writers_own_takes_the_place_of_the_one_that_had_it() -> None:
    keys = commands.Keys("prose", {"tree": "k, ctrl+k", "pick_number": "?, comma"})
    assert keys.plain["tree"] == ["k", "ctrl+k"] and "kill" not in keys.plain
    assert keys.anywhere["tree"] == ["ctrl+k"]
    assert {"question_mark", "comma", "3"} <= set(keys.plain["pick_number"]) and "help" not in keys.plain
