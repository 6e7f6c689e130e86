"""The benchmark of neighbours runs through and says what it measured."""

from __future__ import annotations

import pytest

from benchmarks.engine import neighbours


def test_a_writer_beside_every_kind_of_neighbour(capsys: pytest.CaptureFixture[str]) -> None:
    neighbours.main(["--rounds", "2", "--tokens", "8", "--periods", "0.02"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 3
    assert len({row.count("|") for row in rows}) == 1
    assert "requests" in rows[3] and "20 ms" in rows[3]
