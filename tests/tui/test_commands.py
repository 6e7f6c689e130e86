"""The table of commands: each has words, and no key means two things."""

from __future__ import annotations

from srbwriter.tui import commands
from srbwriter.tui.commands import COMMANDS


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


def test_a_key_of_the_writers_own_takes_the_place_of_the_one_that_had_it() -> None:
    keys = commands.Keys({"tree": "k, ctrl+k", "pick_number": "?, comma"})
    assert keys.anywhere["tree"] == ["ctrl+k"] and keys.unbound == {"tree": "k"}
    assert {"question_mark", "comma", "3"} <= set(keys.plain["pick_number"]) and not keys.plain["help"]
    assert keys.on_branch["comma"] == "pick_number.2"
