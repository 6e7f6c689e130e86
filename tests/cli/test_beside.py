"""The server beside the terminal app answers on a real socket, with the session's own engine."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from srbwriter.cli import app, main
from srbwriter.cli.exits import Exit
from tests.cli.stories import make
from tests.terminal.terminal import CTRL_Q, Terminal


def ask(url: str) -> str:
    answer = httpx.post(f"{url}/v1/completions", json={"model": "any", "prompt": "Once", "max_tokens": 4})
    return answer.raise_for_status().json()["choices"][0]["text"]


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are a thing of POSIX systems")
def test_the_real_program_serves_beside_the_app_and_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    terminal = Terminal(tmp_path / "home")
    terminal.columns = 160
    try:
        terminal.start(str(tmp_path / "tale.srbw"), "--port", str(port), "--ctx-size", "512")
        terminal.wait_for(f"http://127.0.0.1:{port}")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while client.get("/health").status_code == 503:
                pass
            assert client.get("/health").status_code == 200
        assert ask(f"http://127.0.0.1:{port}")
        terminal.press(CTRL_Q)
        assert terminal.ended() == 0
    finally:
        terminal.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the app is started with, in a terminal."""
    from srbwriter import tui

    asked: list[tuple[Any, ...]] = []

    def run(*arguments: Any) -> int:
        asked.append(arguments)
        return 0

    monkeypatch.setattr(tui, "run", run)
    monkeypatch.setattr(app.sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(app.sys.stdout, "isatty", lambda: True)
    return asked


def test_the_app_opens_a_story_by_its_name(opened: list[tuple[Any, ...]]) -> None:
    story = make()
    for line in (["orchard"], ["The Orchard"], ["open", "orchard"], ["orchard", "--theme", "lamplight"]):
        assert main(line) == Exit.OK
    assert [(path, beside) for _, path, beside in opened] == [(story, None)] * 4
