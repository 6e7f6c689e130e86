"""Every command of the table does what it says: in the stored tree, in the branches, or on the screen.

Each scenario runs once with the real handlers, and once with its command's handler replaced by nothing, when
it has to fail.
"""

from __future__ import annotations

import pytest

from srbwriter.tui import themes
from srbwriter.tui.actions import HANDLERS
from srbwriter.tui.commands import COMMANDS
from tests.tui import scenarios
from tests.tui.conftest import OpenBench

IDS = [command.id for command in COMMANDS]


def test_every_command_has_a_handler_and_a_scenario_and_nothing_else_has() -> None:
    assert set(HANDLERS) == set(IDS)
    assert set(scenarios.SCENARIOS) == set(IDS)
    assert len(set(IDS)) == len(IDS)


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
    monkeypatch.setitem(HANDLERS, command, lambda *_: None)
    async with open_bench() as bench:
        with pytest.raises(AssertionError):
            await scenarios.SCENARIOS[command](bench, monkeypatch)


def test_no_key_means_two_things() -> None:
    from srbwriter.tui.commands import anywhere_of, keys_of

    for keymap in ("default", "vim"):
        plain = [key for command in COMMANDS for key in keys_of(command, keymap)]
        assert len(set(plain)) == len(plain), keymap
    anywhere = [key for command in COMMANDS for key in anywhere_of(command)]
    assert len(set(anywhere)) == len(anywhere)
    assert not set(anywhere) & set(plain)
    assert themes.DEFAULT
