"""``srbwriter write`` as a program among others: pipes, JSON, exit codes, with the bundled model."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from srbwriter import cli
from srbwriter.cli.write import print_branches
from srbwriter.engine import Engine, Request
from srbwriter.engine.types import Stop

QUICK = ("--max-tokens", "12", "--ctx-size", "512", "--gpu-layers", "0", "--seed", "3")


def write(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["write", *arguments, *QUICK]) == 0
    return capsys.readouterr().out


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "srbwriter", "write", *arguments, *QUICK]


def test_json_and_plain_output_hold_every_branch(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(write(capsys, "Once upon a time,", "-n", "4", "--json"))
    assert document["prompt"] == "Once upon a time," and document["model"]
    branches = document["branches"]
    assert [branch["index"] for branch in branches] == [0, 1, 2, 3]
    assert len({branch["text"] for branch in branches}) == 4
    assert len({branch["seed"] for branch in branches}) == 4
    for branch in branches:
        assert set(branch) == {"index", "text", "finish_reason", "tokens", "seed"}
        assert branch["finish_reason"] in ("length", "eog") and 1 <= branch["tokens"] <= 12
    parts = [f"--- {b['index'] + 1} of 4 ---\n{b['text']}\n" for b in branches]
    assert write(capsys, "Once upon a time,", "-n", "4") == "\n".join(parts)


def test_a_piped_prompt_loses_one_newline(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for argument, piped, prompt in ((["-"], "Once\n", "Once"), ([], "A\n\n", "A\n"), ([], "B ", "B ")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(piped))
        assert json.loads(write(capsys, *argument, "-n", "1", "--json"))["prompt"] == prompt


def test_what_is_no_prompt_is_refused_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a terminal is not waited for."""
    for arguments, stdin, code, words in (
        (["-"], io.TextIOWrapper(io.BytesIO(b"a\xff"), "utf-8"), 2, "not UTF-8"),
        (["a\udcff"], Terminal(), 2, "not UTF-8"),
        ([], Terminal(), 2, "there is no prompt"),
        (["word " * 2000], Terminal(), 1, "512 tokens"),
    ):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert cli.main(["write", *arguments, *QUICK]) == code
        out, err = capsys.readouterr()
        assert out == "" and words in err


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
    print_branches(generation, sink)
    assert ("\x1b" in sink.getvalue()) is kept
    assert "b\tc\n" in sink.getvalue()
