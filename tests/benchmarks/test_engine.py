"""The engine benchmark runs through and says what it measured; its figures are nobody's promise here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.engine import in_a_row
from benchmarks.engine.__main__ import main
from benchmarks.engine.contestants import Score
from benchmarks.engine.throughput import rounds

SMALL = (
    "--model bundled --counts 1 2 --rounds 1 --prompt 16 --tokens 6 --steps 4 --story 64 --requests 8 "
    "--parked 200 --others 2 --other-tokens 12"
).split()


def tables(text: str) -> list[list[str]]:
    """The rows of each Markdown table, which all have the same number of cells."""
    found = [block.splitlines() for block in re.findall(r"(?:^\|.*\n?)+", text, re.M)]
    for rows in found:
        assert len({row.count("|") for row in rows}) == 1
    return found


@pytest.mark.parametrize("part", ["python", "pick", "memory", "parked", "reopen", "screen", "admission"])
def test_each_part_makes_a_table(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*SMALL, "--only", part])
    out = capsys.readouterr().out
    assert "storyteller.gguf" in out
    (table,) = tables(out)
    assert len(table) >= 4


def test_throughput_is_measured_with_empty_and_used_caches(capsys: pytest.CaptureFixture[str]) -> None:
    main([*SMALL, "--only", "throughput", "--settings", "equal"])
    out = capsys.readouterr().out
    assert re.findall(r"^### (\w+) cache", out, re.M) == ["empty", "used"]
    assert [len(table) for table in tables(out)] == [4, 4]
    assert out.count("one after another tok/s") == out.count("bare loop tok/s") == 2


def test_requests_in_a_row_are_measured_on_a_simulated_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gguf", reason="makes the benchmark's model; the dev extra brings it")
    sizes = "--devices 1.1b --counts 2 --requests 3 --rounds 1 --tokens 4".split()
    in_a_row.main([*sizes, "--models", str(tmp_path)])
    (table,) = tables(capsys.readouterr().out)
    assert len(table) == 3 and table[-1].startswith("| 1.1b | 2 | here |")


def test_peers_are_measured_with_equal_settings_and_defaults(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = ["--beside", "bare", "batched-bench", "server"]
    main([*SMALL, "--only", "throughput", "--peers", str(programs), *beside])
    out = capsys.readouterr().out
    assert [len(table) for table in tables(out)] == [4, 4, 4, 4]
    assert out.count("engine / llama-server") == out.count("engine / llama-batched-bench") == 4
    assert len(re.findall(r"^### .* defaults", out, re.M)) == 2


def test_contestants_take_turns_and_medians_are_of_pairs() -> None:
    turns: list[str] = []

    class Fake:
        def __init__(self, name: str, speed: int) -> None:
            self.name, self.speed = name, speed

        def write(self, n: int, seed: int) -> Score:
            turns.append(self.name)
            return Score(self.speed * max(seed, 1), 1.0)

    result = rounds([Fake("a", 2), Fake("b", 1)], 4, 3)
    assert turns == ["a", "b", "a", "b", "b", "a", "a", "b"]  # once to warm up, then three rounds
    assert result.n == 4
    assert result.speed("a") == 4
    assert result.ratios("a", "b") == [2, 2, 2]
