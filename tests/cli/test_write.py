"""``srbwriter write`` as a program among others: pipes, JSON, exit codes, with the bundled model."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from srbwriter import cli
from srbwriter.cli.write import _Printer  # pyright: ignore[reportPrivateUsage]
from srbwriter.engine import Engine, Request
from srbwriter.engine.types import Stop

QUICK = ("--max-tokens", "12", "--ctx-size", "512", "--gpu-layers", "0", "--seed", "3")


def write(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["write", *arguments, *QUICK]) == 0
    return capsys.readouterr().out


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "srbwriter", "write", *arguments, *QUICK]


def test_json_holds_every_branch(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(write(capsys, "Once upon a time,", "-n", "4", "--json"))
    assert document["prompt"] == "Once upon a time," and document["model"]
    branches = document["branches"]
    assert [branch["index"] for branch in branches] == [0, 1, 2, 3]
    assert len({branch["text"] for branch in branches}) == 4
    assert len({branch["seed"] for branch in branches}) == 4
    for branch in branches:
        assert set(branch) == {"index", "text", "finish_reason", "tokens", "seed"}
        assert branch["finish_reason"] in ("length", "eog") and 1 <= branch["tokens"] <= 12


def test_the_same_seed_writes_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (write(capsys, "Once upon a time,", "-n", "2") for _ in range(2))
    assert first == second


def test_a_strict_branch_is_the_same_whatever_its_number_of_neighbours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = [
        json.loads(write(capsys, "Once upon a time,", "--strict", "-n", n, "--json"))["branches"][0]["text"]
        for n in ("1", "4")
    ]
    assert texts[0] == texts[1]


def test_plain_output_is_the_text_under_a_line_for_each_branch(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(write(capsys, "Once upon a time,", "-n", "3", "--json"))
    plain = write(capsys, "Once upon a time,", "-n", "3")
    parts = [f"--- {b['index'] + 1} of 3 ---\n{b['text']}\n" for b in document["branches"]]
    assert plain == "\n".join(parts)


def test_one_branch_is_its_text_alone(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(write(capsys, "Once", "-n", "1", "--json"))
    assert write(capsys, "Once", "-n", "1") == document["branches"][0]["text"] + "\n"


@pytest.mark.parametrize("argument", [[], ["-"]])
@pytest.mark.parametrize(("piped", "prompt"), [("Once\n", "Once"), ("A\n\n", "A\n"), ("B ", "B ")])
def test_a_piped_prompt_loses_one_newline(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    argument: list[str],
    piped: str,
    prompt: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(piped))
    assert json.loads(write(capsys, *argument, "-n", "1", "--json"))["prompt"] == prompt


@pytest.mark.parametrize("argument", ["-", "a\udcff"])
def test_a_prompt_that_is_no_text_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\xff"), "utf-8"))
    assert cli.main(["write", argument, *QUICK]) == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_without_a_prompt_a_terminal_is_not_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert cli.main(["write", *QUICK]) == 2
    assert "there is no prompt" in capsys.readouterr().err


def test_stop_rules_hold(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("Once upon a time,", "-n", "4", "--json", "--stop", " ", "--stop", ".")
    branches = json.loads(write(capsys, *arguments))["branches"]
    assert not any(" " in branch["text"] or "." in branch["text"] for branch in branches)
    assert "stop" in {branch["finish_reason"] for branch in branches}


def test_a_prompt_that_does_not_fit_says_how_much_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["write", "word " * 2000, *QUICK]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "512 tokens" in captured.err


def test_a_reader_that_leaves_is_no_traceback() -> None:
    process = subprocess.Popen(
        [*command("Once upon a time,", "-n", "8"), "--max-tokens", "200"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0 and errors == ""


def test_ctrl_c_ends_with_its_code() -> None:
    process = subprocess.Popen(
        [*command("Once upon a time,", "-n", "16", "--ignore-eos"), "--max-tokens", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(1)
    os.kill(process.pid, signal.SIGINT)
    with process.stdout, process.stderr:
        process.stdout.read()
        assert "Traceback" not in process.stderr.read()
    assert process.wait(60) == 130


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("out", "kept"), [(io.StringIO, True), (Terminal, False)])
def test_a_terminal_is_shown_no_escape_sequences(engine: Engine, out: type[io.StringIO], kept: bool) -> None:
    generation = engine.submit(Request(prompt="Once", n=1, stop=Stop(max_tokens=0)))
    generation.wait(60)
    branch: Any = generation.branches[0]
    branch.buffer.pieces.append("a\x1b[31mb\tc\n")
    sink = out()
    _Printer(generation, sink).follow()
    assert ("\x1b" in sink.getvalue()) is kept
    assert "b\tc\n" in sink.getvalue()


def test_a_config_file_speaks_for_missing_flags(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "short.toml"
    file.write_text("[generation]\nn = 2\n", "utf-8")
    assert len(json.loads(write(capsys, "Once", "--json", "--config", str(file)))["branches"]) == 2
