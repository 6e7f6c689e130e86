"""The server's benchmark runs through and says what it measured; its figures are nobody's promise here."""

from __future__ import annotations

import sys

import pytest

from benchmarks.server import __main__ as program
from benchmarks.server import meanwhile


@pytest.mark.parametrize("part", ["fair", "health"])
def test_parts_that_make_others_wait(
    part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("detokenise 3 000 000 ids", "4096 messages")
    monkeypatch.setattr(meanwhile, "CASES", {name: meanwhile.CASES[name] for name in few})
    line = ["benchmarks.server", "--part", part, "--long", "24", "--tries", "1", "--cells", "4096"]
    monkeypatch.setattr(sys, "argv", line)
    program.main()
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == {"fair": 3, "health": 4}[part]
