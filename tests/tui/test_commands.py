"""The table of commands: each has words, and no key means two things."""

from __future__ import annotations

from collections import Counter

from textual.keys import _character_to_key

from srbwriter.tui import commands
from srbwriter.tui.commands import COMMANDS, key_name
from srbwriter.tui.prose import Prose


def test_every_command_has_words() -> None:
    assert all(command.title and command.help.endswith(".") for command in COMMANDS.values())


def test_no_key_means_two_things() -> None:
    known = commands.Keys({})
    keys = [key for some in (*known.plain.values(), *known.anywhere.values()) for key in some]
    declared = [
        key for command in COMMANDS.values() for key in f"{command.keys},{command.anywhere}".split(",") if key
    ]
    assert sorted(keys) == sorted(declared)
    assert len(set(keys)) == len(keys)


def test_a_key_of_one_character_is_shown_as_that_character() -> None:
    keys = {key for some in commands.Keys({}).plain.values() for key in some}
    characters = {_character_to_key(char): char for char in map(chr, range(33, 127))}
    assert {key: key_name(key) for key in keys & set(characters)} == {
        key: char for key, char in characters.items() if key in keys
    }
    signs = {"^n": "ctrl+n", "F5": "f5", "pgup": "pageup", "é": "latin_small_letter_e_with_acute"}
    assert all(key_name(key) == sign for sign, key in signs.items())


def test_no_key_of_a_screen_means_two_things() -> None:
    for screen in commands.screens():
        if issubclass(screen, Prose):
            continue  # one that is only read inherits no keys
        bindings = commands.screen_bindings(screen)
        keys = Counter(key for binding in bindings for key in binding.key.split(","))
        assert not [key for key, count in keys.items() if count > 1], screen
        assert not bindings or screen.KEYS, screen
        assert not [b.action for b in bindings if b.tooltip and not b.tooltip.endswith(".")]


def test_a_key_of_the_writers_own_takes_the_place_of_the_one_that_had_it() -> None:
    keys = commands.Keys({"tree": "k, ctrl+k", "pick_number": "?, comma"})
    assert keys.anywhere["tree"] == ["ctrl+k"] and keys.unbound == {"tree": "k"}
    assert {"question_mark", "comma", "3"} <= set(keys.plain["pick_number"]) and not keys.plain["help"]
    assert keys.on_branch["comma"] == "pick_number.2"
