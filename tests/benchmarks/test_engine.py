"""The engine benchmark runs through and says what it measured; its figures are nobody's promise here."""

from __future__ import annotations

import re

import pytest

from benchmarks.engine.__main__ import main
from benchmarks.engine.contestants import Score
from benchmarks.engine.throughput import Result, rounds

SMALL = "--counts 1 2 --rounds 1 --prompt 16 --tokens 6 --steps 4 --story 64 --requests 8".split()


@pytest.mark.parametrize("part", ["throughput", "python", "pick", "memory"])
def test_each_part_makes_a_table(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*SMALL, "--only", part])
    head, *body = capsys.readouterr().out.strip().splitlines()
    assert "storyteller.gguf" in head
    rows = [line for line in body if line.startswith("|")]
    assert len(rows) >= 4
    assert len({line.count("|") for line in rows}) == 1


def test_nothing_is_left_behind(capsys: pytest.CaptureFixture[str]) -> None:
    main([*SMALL, "--only", "memory"])
    values = dict(re.findall(r"^\|\s*(.+?) \|\s*(\S+) \|$", capsys.readouterr().out, re.M))
    assert values["live branches"] == "0"
    assert values["cells after reset"] == values["sequence ids after reset"] == "0"
    assert values["native sequences that hold anything after reset"] == "0"


def test_contestants_take_turns_and_medians_are_of_pairs() -> None:
    turns: list[str] = []

    class Fake:
        def __init__(self, name: str, speed: int) -> None:
            self.name, self.speed = name, speed

        def write(self, n: int, seed: int) -> Score:
            turns.append(self.name)
            return Score(self.speed * max(seed, 1), 1.0)

    (result,) = rounds([Fake("a", 2), Fake("b", 1)], [4], 3)
    assert turns == ["a", "b", "a", "b", "b", "a", "a", "b"]  # once to warm up, then three rounds
    assert isinstance(result, Result) and result.n == 4
    assert result.speed("a") == 4
    assert result.ratios("a", "b") == [2, 2, 2]
