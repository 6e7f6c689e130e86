"""``srbwriter --serve``: settings reach the server, and the real program answers until it is told to end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from srbwriter import launch
from srbwriter.cli import main, serve
from srbwriter.cli.exits import Exit
from srbwriter.cli.table import every_key
from srbwriter.config import Key, Settings, keys, load
from srbwriter.demo import bundled_model
from srbwriter.engine.types import Sampling, Stop
from srbwriter.server import ServerSettings
from tests.server.lines import LineClient, known


def settings(flags: dict[str, Any]) -> Settings:
    return load(every_key(), flags, {})


@pytest.mark.parametrize("row", serve.OPTIONS, ids=lambda row: row.name)
def test_every_row_reaches_the_server(row: Key[Any], tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("secret\n")
    value = next(value for value in (True, False, 7, str(file), ["a"], "json") if _takes(row, value))
    before, after = ServerSettings(), serve.server_settings(settings({row.name: row.read_toml(value)}))
    changed = [f.name for f in fields(after) if getattr(after, f.name) != getattr(before, f.name)]
    assert len(changed) == 1


def _takes(row: Key[Any], value: object) -> bool:
    try:
        return row.read_toml(value) != row.default
    except ValueError:
        return False


def test_what_is_asked_of_the_model_reaches_the_server() -> None:
    said = {keys.N.name: 3, keys.MAX_N.name: 5, keys.MAX_TOKENS.name: 7, "sampling.temperature": 0.25}
    assert serve.server_settings(settings(said)) == ServerSettings(
        n=3, line_n=3, max_n=5, n_predict=7, line_stop=Stop(max_tokens=7), sampling=Sampling(temperature=0.25)
    )


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The real program, and its first line on standard error that is not about a sound model."""
    process = subprocess.Popen(
        [sys.executable, "-m", "srbwriter", "--serve", "--gpu-layers", "0", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    sound = ("is ready", "this is the small bundled model")
    return process, next((line for line in lines if not any(words in line for words in sound)), "")


def ended(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    with process.stderr:
        assert "Traceback" not in process.stderr.read()
    return process.wait(60)


def test_it_serves_until_a_signal_where_the_program_says() -> None:
    """Flags without effect are told before that."""
    process, line = start("--port", "0", "--tcp", "0", "--ctx-size", "512", "--threads-http", "4")
    try:
        assert line == (
            "srbwriter: --threads-http: one event loop serves every connection; the number is not used\n"
        )
        assert process.stderr is not None
        line = next(line for line in process.stderr if "listening on" in line)
        line = line.removeprefix("srbwriter: listening on ")
        url, _, address = line.strip().partition(", and for lines on ")
        with httpx.Client(base_url=url, timeout=60) as client:
            while client.get("/health").status_code == 503:
                pass
            answer = client.post("/v1/completions", json={"model": "any", "prompt": "Once", "max_tokens": 4})
            assert answer.status_code == 200 and answer.json()["choices"][0]["text"]
        with LineClient(address) as lines:
            lines.ask("SET max_tokens=4")
            assert known(lines.ask("PROMPT Once upon a time,"))["completion_tokens"] == "4"
    finally:
        process.send_signal(signal.SIGINT)
        code = ended(process)
    assert code == 0


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of files that are no models, and of models that cannot be used."""
    sound = bundled_model().read_bytes()
    for name, content in (
        ("text.gguf", b"Once upon a time"),
        ("cut.gguf", sound[:2000]),
        ("weights-cut.gguf", sound[: len(sound) // 2]),
        ("end-cut.gguf", sound[:-100]),
    ):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_files_that_cannot_be_used_end_it(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, words in UNUSABLE:
        monkeypatch.chdir(files)
        arguments = line.replace("SOUND", str(bundled_model())).split()
        assert main(["--serve", "--port", "0", *arguments]) == Exit.MODEL, line
        assert words in capsys.readouterr().err, line


UNUSABLE = (
    ("-m none.gguf", "no such file"),
    ("-m .", "this is a folder"),
    ("-m text.gguf", "not a GGUF file"),
    ("-m cut.gguf", "cut short"),
    ("--lora none.gguf", "no such file"),
    ("--lora text.gguf:0.5", "not a GGUF file"),
    ("-m weights-cut.gguf", "weights-cut.gguf: llama.cpp could not load it"),
)


def test_a_load_that_fails_ends_the_server(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--serve", "--port", "0", "--model", str(files / "end-cut.gguf")]) == Exit.MODEL
    said = capsys.readouterr().err
    assert "listening on" in said and said.count("end-cut.gguf: ") == 1


@pytest.mark.parametrize("model", [(), ("--model", str(bundled_model()))])
def test_a_port_that_is_taken_is_said_in_words(
    model: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before that, a model that nobody chose comes with the way to a bigger one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--serve", "--gpu-layers", "0", "--port", str(port), *model]) == Exit.USAGE
    said = capsys.readouterr().err
    assert f"srbwriter: cannot listen on 127.0.0.1:{port}" in said
    assert ("srbwriter models recommended" in said) is (not model)


@pytest.mark.parametrize("beside", [False, True])
def test_settings_that_cannot_be_used_are_said_before_anything_is_loaded(
    beside: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By ``--serve`` as by the app with a server beside it, which has not taken the terminal yet."""
    from srbwriter.cli import app

    monkeypatch.setattr(app.sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(app.sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(launch, "loader", pytest.fail)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        lines = ["--tcp", str(taken.getsockname()[1])]  # would be said if it listened first
        for line, words in WRONG:
            arguments = [*lines, *([] if beside else ["--serve"]), "--port", "0", *line.split()]
            assert main(arguments) == Exit.USAGE, line
            assert re.search(words, capsys.readouterr().err), line


WRONG = (
    ("--api-key=", "a key is empty"),
    ("--chat-template nobodys", "no template is called 'nobodys'; there is chatml"),
    ("--chat-template {{", "the chat template cannot be used"),
    ("--path /none", "there is no such folder to serve"),
    ("--system-prompt-file /none", "the system prompt cannot be read"),
    ("--ssl-key-file /none", "HTTPS needs both"),
    ("--ssl-key-file /none --ssl-cert-file /none", "cannot be used for HTTPS"),
    ("--host 0.0.0.0", "give --api-key KEY, or --insecure"),
    ("--tcp nowhere", "--tcp nowhere: expected PORT"),
    ("--preload /none", "the preloaded prompt cannot be read"),
    ("--api-key-file /none", "the list of keys cannot be read"),
)
