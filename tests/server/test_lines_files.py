"""The line protocol on the bundled model: the page, and the examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.engine import Engine
from srbwriter.server import Loaded, ServerHandle, ServerSettings, start_in_thread

from .lines import READY, LineClient, known, output

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lines.md").read_text("utf-8")
BEGIN = "PROMPT Once upon a time there was a fisherman who lived at the sea."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sessions")


@pytest.fixture(scope="module")
def server(model: Engine, folder: Path) -> Iterator[ServerHandle]:
    persona = folder / "persona"
    persona.write_text("A story that is told at the fire.\n\n")
    handle = start_in_thread(
        Loaded(model),
        ServerSettings(port=0, tcp=("0",), access_log=False, preload=persona),
    )
    yield handle
    handle.stop(20)


@pytest.fixture
def client(server: ServerHandle) -> Iterator[LineClient]:
    with LineClient(server.lines[0]) as one:
        one.ask("SET max_tokens=12")
        one.ask("SET temperature=0")
        yield one


def test_what_was_preloaded_is_not_read_again(client: LineClient) -> None:
    reply = known(client.ask(BEGIN))
    assert int(reply["cached_tokens"]) >= 8


# ---- the page, and the examples


def test_every_line_of_the_page_is_answered_as_it_says(server: ServerHandle) -> None:
    """Lines to be sent begin with ``> ``; what is shown below each is what begins a line of the answer."""
    (dialogue,) = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    with LineClient(server.lines[0]) as client:
        heard = [*client.greeting, READY]
        for line in dialogue.splitlines():
            if line.startswith("> "):
                heard = [*client.ask(line.removeprefix("> ")), READY]
            elif line != "…":
                start = line.partition("…")[0]
                assert any(one.startswith(start) for one in heard), line


def test_the_lines_for_a_shell_run(server: ServerHandle) -> None:
    host, port = server.lines[0].split(":")
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    script = block.replace("127.0.0.1/8081", f"{host}/{port}")
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "OUTPUT " in done.stdout and done.stdout.startswith("HELO ")


def test_the_server_of_the_examples(tmp_path: Path) -> None:
    program = tmp_path / "srbwriter"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m srbwriter "$@"\n')
    program.chmod(0o755)
    (tmp_path / "persona").write_text("A story.\n")
    process = subprocess.Popen(
        ["bash", ROOT / "examples" / "serve-lines.sh", "--gpu-layers", "0", "--ctx-size", "512"],
        stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}", "PORT": "0",
             "HTTP_PORT": "0", "PERSONA": str(tmp_path / "persona"), "SRBWRITER_KEY": "s3cret"},
    )  # fmt: skip
    assert process.stderr
    with process.stderr:
        try:
            line = next(line for line in process.stderr if "for lines on" in line)
            with LineClient(line.split()[-1], greet=False) as client:
                client.send("AUTH s3cret", "PROMPT It was")
                client.until_ready()
                assert output(client.until_ready())
        finally:
            process.terminate()
            process.stderr.read()
        assert process.wait(60) == 0


def test_the_client_in_python(server: ServerHandle) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "lines.py", server.lines[0]],
        input="Once upon a time,\n/stop\n/undo\n The cat\n", capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "tokens left" in done.stdout and len(done.stdout.split()) > 20


@pytest.mark.needs("bash")
def test_the_client_in_bash(server: ServerHandle) -> None:
    port = server.lines[0].rpartition(":")[2]
    done = subprocess.run(
        ["bash", ROOT / "examples" / "lines.sh"], input="Once upon a time,\n The cat", text=True,
        capture_output=True, timeout=300, env={**os.environ, "PORT": port, "TOKENS": "8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("> ") >= 2 and len(done.stdout.split()) > 8
