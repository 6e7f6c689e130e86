"""What a server is told in files and templates when it starts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from srbwriter.engine.types import TokenRun
from srbwriter.server import ServerError
from tests.fakes.engine import BOS, WORDS, FakeEngine

from .conftest import Serve

ONCE = 256 + WORDS.index("Once")
BODY = {"prompt": "Once", "n_predict": 3}


NAMES = '"anti_prompt": "User:", "assistant_name": "Bot:"'


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("Be brief.", ("", "")),
        (f'{{"prompt": "Be brief.", {NAMES}}}', ("Bot:", "User:")),
        (f'{{"system_prompt": {{"prompt": "Be brief.", {NAMES}}}}}', ("Bot:", "User:")),
        ('{"prompt": "Be brief."}', ("", "")),
        ('{"system_prompt": "Be brief."}', ("", "")),
    ],
)
def test_a_system_prompt_from_a_file(
    serve: Serve, engine: FakeEngine, tmp_path: Path, content: str, names: tuple[str, str]
) -> None:
    file = tmp_path / "system"
    file.write_text(content)
    with httpx.Client(base_url=serve(system_prompt_file=file).url) as http:
        http.post("/completion", json=BODY)
        assert engine.submitted[-1].prompt == (TokenRun("Be brief."), TokenRun("Once"))
        props = http.get("/props").json()
        assert (props["assistant_name"], props["user_name"]) == names


NO_PROMPTS = (
    ("s", '{"prompt": 1}', "Expected `str`"),
    ("s", '{"system_prompt": {"prompt": ["Be brief."]}}', "Expected `str`"),
    ("s", '{"text": "Be brief."}', "unknown field `text`"),
    ("s", '{"system_prompt": {"prompt": "Be brief."}, "prompt": "x"}', "too many values"),
    ("s", '{"system_prompt": 5}', "Expected `object`"),
    ("s", '{"system_prompt": {"prompt": "Be brief."},}', "no such JSON"),
    ("s.json", '{"prompt": "Be brief."', "no such JSON"),
)


def test_other_json_is_refused_at_start(serve: Serve, tmp_path: Path) -> None:
    for name, content, words in NO_PROMPTS:
        file = tmp_path / name
        file.write_text(content)
        with pytest.raises(ServerError, match=words) as refused:
            serve(system_prompt_file=file)
        assert str(file) in str(refused.value) and '"anti_prompt"' in str(refused.value)


PROMPTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/completion", {"prompt": "Once"}),
    ("/completion", {"prompt": [BOS, ONCE]}),
    ("/v1/completions", {"prompt": "Once"}),  # without a model it is SRB's dialect
    ("/v1/completions", {"prompt": "Once", "model": "m"}),
    ("/v1/completions", {"prompt": [ONCE], "model": "m"}),
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
