"""What a server is told in files and templates when it starts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from srbwriter.engine.types import TokenRun
from srbwriter.server import ServerError
from tests.fakes.engine import FakeEngine

from .conftest import Serve

BODY = {"prompt": "Once", "n_predict": 3}


def test_a_system_prompt_from_a_file(serve: Serve, engine: FakeEngine, tmp_path: Path) -> None:
    file = tmp_path / "system"
    file.write_text("Be brief.")
    with httpx.Client(base_url=serve(system_prompt_file=file).url) as http:
        http.post("/completion", json=BODY)
        assert engine.submitted[-1].prompt == (TokenRun("Be brief."), TokenRun("Once"))
        assert http.get("/props").json()["system_prompt"] == "Be brief."


PROMPTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/completion", {"prompt": "Once"}),
    ("/v1/completions", {"prompt": "Once"}),  # without a model it is SRB's dialect
    ("/v1/completions", {"prompt": "Once", "model": "m"}),
    ("/srb/v1/completions", {"prompt": "Once"}),
    ("/srb/v1/next", {"prompt": "Once"}),
    ("/api/v1/generate", {"prompt": "Once"}),
)


def test_the_system_prompt_stands_before_every_prompt(
    serve: Serve, engine: FakeEngine, tmp_path: Path
) -> None:
    file = tmp_path / "system"
    file.write_text("The cat.")
    with httpx.Client(base_url=serve(system_prompt_file=file).url) as http:
        for path, body in PROMPTS:
            before = len(engine.generations)
            assert http.post(path, json=body).status_code in (200, 202), (path, body)
            (asked,) = engine.generations[before:]
            assert engine.detokenize(asked.prompt_ids) == "The cat.Once", (path, body)
            assert asked.request.add_bos, (path, body)


def test_a_socket_file_is_taken_over_only_when_nobody_listens(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(file))
    handle = serve(host=(str(file),))
    assert handle.url == f"unix:{file}" and file.stat().st_mode & 0o077 == 0
    with pytest.raises(ServerError, match="another server does"):
        serve(host=(str(file),))
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(file)), base_url="http://anything") as http:
        assert http.get("/health").json()["status"] == "ok"
    handle.stop(10)
    assert not file.exists()
