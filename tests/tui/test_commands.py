"""Every command of the table does what it says: in the stored tree, in the branches, or on the screen.

Each scenario runs once with the real handlers, and once with its command's handler replaced by nothing, when
it has to fail.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from srbwriter.tui import commands
from srbwriter.tui.commands import COMMANDS
from tests.tui import scenarios
from tests.tui.conftest import OpenBench

IDS = list(COMMANDS)


def test_every_command_has_words_and_a_scenario_and_nothing_else_has() -> None:
    assert set(scenarios.SCENARIOS) == set(IDS)
    assert all(command.title and command.help.endswith(".") for command in COMMANDS.values())


@pytest.mark.parametrize("command", IDS)
async def test_the_command_does_what_it_says(
    command: str, open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench() as bench:
        await scenarios.SCENARIOS[command](bench, monkeypatch)


@pytest.mark.parametrize("command", IDS)
async def test_without_its_handler_the_scenario_fails(
    command: str, open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, command, replace(COMMANDS[command], handler=lambda *_: None))
    async with open_bench() as bench:
        with pytest.raises(AssertionError):
            await scenarios.SCENARIOS[command](bench, monkeypatch)


@pytest.mark.parametrize("kind", ["default", "vim"])
def test_no_key_means_two_things(kind: str) -> None:
    keymap = commands.keymap(kind, {})
    keys = [
        key
        for bindings in (commands.plain_bindings(), commands.anywhere_bindings())
        for some in commands.keys_by_command(bindings, keymap).values()
        for key in some
    ]
    declared = [
        key
        for command in COMMANDS.values()
        for key in f"{(command.vim if kind == 'vim' else '') or command.keys},{command.anywhere}".split(",")
        if key
    ]
    assert sorted(keys) == sorted(declared)
    assert len(set(keys)) == len(keys)


def test_a_key_of_the_writers_own_takes_the_place_of_the_one_that_had_it() -> None:
    keymap = commands.keymap("default", {"tree": "k, ctrl+k", "pick_number": "?, comma"})
    plain = commands.keys_by_command(commands.plain_bindings(), keymap)
    assert plain["tree"] == ["k", "ctrl+k"] and not plain["kill"]
    assert commands.keys_by_command(commands.anywhere_bindings(), keymap)["tree"] == ["ctrl+k"]
    assert {"question_mark", "comma", "3"} <= set(plain["pick_number"]) and not plain["help"]
