"""The writer's session: what is picked and typed, what is evaluated for it, and the last line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.engine.sides import Played, Round, Script, alternate
from benchmarks.session import main, ratios

SMALL = "--model bundled --cells 1024 --rounds 8 --branches 3 --tokens 6 --prompt 24 --typed 3".split()


class Recorder:
    """A side that writes at once, and remembers what it was asked."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log
        self.prompts: list[list[int]] = []

    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Round:
        self.log.append(self.name)
        self.prompts.append(prompt)
        ids = [[100 * seed + 10 * k] * tokens for k in range(n)]
        return Round(ids, first=0.5, seconds=1.0, evaluated=len(prompt), busy=1.0)

    def rest(self) -> tuple[int, float]:
        return 2, 0.25


def test_every_fourth_round_goes_back_to_an_older_place() -> None:
    side = Recorder("a", [])
    rounds = list(Script([1, 2, 3], [7, 8], rounds=9, branches=3, tokens=2).play(side))
    grown: list[int] = []  # the round that each one's prompt goes on from
    for number, prompt in enumerate(side.prompts):
        assert prompt[:3] == [1, 2, 3]
        bases = [n for n in range(number) if prompt[: len(side.prompts[n])] == side.prompts[n]]
        grown.append(max(bases, key=lambda n: len(side.prompts[n]), default=-1))
    assert grown == [-1, 0, 1, 2, 2, 4, 5, 6, 4, 8]
    assert [played.typed for played in rounds] == [3, 0, 0, 2, 0, 0, 2, 0, 0, 2]
    for number in (3, 6, 9):
        assert side.prompts[number][-2:] == [7, 8]


def test_sides_take_turns_round_by_round() -> None:
    log: list[str] = []
    script = Script([1], [2], rounds=3, branches=2, tokens=1)
    played = alternate(script, [Recorder("a", log), Recorder("b", log)])
    assert log == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert {name: len(rounds) for name, rounds in played.items()} == {"a": 4, "b": 4}


def test_the_last_line_tells_ratios_of_rounds() -> None:
    def rounds(first: float, seconds: float, evaluated: int) -> list[Played]:
        return [Played(Round([], first, seconds, evaluated, seconds), 5, 0, 1.0) for _ in range(3)]

    line = ratios({"srbwriter": rounds(0.1, 2.0, 5), "llama-server": rounds(0.4, 4.0, 25)})
    assert "beyond what was typed: 0 (aim 0), theirs 40" in line
    assert "text 4.0 times sooner" in line
    assert "total 0.50 of theirs (aim 1), 0.75 with" in line


def test_a_session_of_the_engine_evaluates_what_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    main([*SMALL, "--settings", "equal", "--picks", "rested"])
    out = capsys.readouterr().out
    (row,) = re.findall(r"^\| *srbwriter \|(.*)\|$", out, re.M)
    typed, evaluated, later, *_ = map(int, re.findall(r"\d+", row))
    assert typed == evaluated == 6
    assert 0 < later <= 8 * 3  # the last token of each branch, while nobody waited
    assert "beyond what was typed: 0" in out.strip().splitlines()[-1]


def test_a_session_beside_a_server_is_a_table_and_a_line(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*SMALL, "--peers", str(programs)])
    out = capsys.readouterr().out
    assert len(re.findall(r"^\| *llama-server \|", out, re.M)) == 4  # two kinds of settings and of picks
    assert len(re.findall(r"^evaluated beyond .* times sooner .* of theirs", out, re.M)) == 4
    assert out.count("each side's defaults") == out.count("the moment all have ended") == 2
