"""The server's benchmark runs through and says what it measured; its figures are nobody's promise here."""

from __future__ import annotations

import sys

import pytest

from benchmarks.server import __main__ as program
from benchmarks.server import meanwhile


@pytest.mark.parametrize("part", ["fair", "health", "heads", "kept", "memory"])
def test_a_part_makes_its_table(
    part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("detokenise 3 000 000 ids", "4096 messages")
    monkeypatch.setattr(meanwhile, "CASES", {name: meanwhile.CASES[name] for name in few})
    sizes = "--long 24 --tries 1 --cells 4096 --requests 250 --heads 5 --turns 2 --prompt 32"
    line = ["benchmarks.server", "--part", part, *sizes.split()]
    monkeypatch.setattr(sys, "argv", line)
    program.main()
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == {"fair": 3, "health": 4, "heads": 3, "kept": 3, "memory": 2}[part]
