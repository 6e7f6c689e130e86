"""``--connect``: the same commands on an engine that runs elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from srbwriter import cli, launch
from srbwriter.cli.table import every_key
from srbwriter.config import load
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from tests.engine.peers import served
from tests.engine.scripted import PROMPT, STORY, Scripted, answers, drops_after
from tests.server.test_handles import text_of
from tests.server.wire import lines


def test_write_prints_what_comes_from_elsewhere(server: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    server.faults.append(drops_after(7))
    arguments = ["write", PROMPT, "--connect", server.url, "-n", "2", "--max-tokens", "40", "--json"]
    assert cli.main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert [branch["text"] for branch in document["branches"]] == [STORY[:40]] * 2
    assert document["model"] == "scripted"


def test_the_environment_says_where_and_with_which_key(
    server: Scripted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.wanted_key = "k1"
    monkeypatch.setenv("SRBWRITER_CONNECT", server.url)
    monkeypatch.setenv("SRBWRITER_CONNECT_KEY", "k1")
    assert cli.main(["write", PROMPT, "-n", "1", "--max-tokens", "9"]) == 0
    assert capsys.readouterr().out == STORY[:9] + "\n"


def test_what_is_wrong_there_is_the_exit_code_here(
    server: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    server.always = answers(400, {"error": {"message": "maximum context length is 7 tokens"}})
    assert cli.main(["write", PROMPT, "--connect", server.url, "-n", "1"]) == 1
    assert "maximum context length is 7 tokens" in capsys.readouterr().err
    assert cli.main(["write", PROMPT, "--connect", server.url, "--dialect", "koboldcpp"]) == 2
    assert "--dialect: 'koboldcpp': expected one of" in capsys.readouterr().err


def test_a_model_named_nearer_is_the_one_that_is_meant(tmp_path: Path) -> None:
    said = load(every_key(), {"model.path": tmp_path / "a.gguf"}, {"SRBWRITER_CONNECT": "host"})
    assert not launch.elsewhere(said)
    assert launch.elsewhere(load(every_key(), {"model.connect": "host"}, {"SRBWRITER_MODEL": "a.gguf"}))


def test_serving_what_is_served_elsewhere(server: Scripted) -> None:
    with (
        RemoteEngine.connect(RemoteOptions(server.url)) as engine,
        served(engine) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        body = {"prompt": PROMPT, "n": 2, "max_tokens": 60, "stop": []}
        answer = client.post("/srb/v1/completions?rich=1", json=body)
        assert text_of(lines(answer.text), 0) == STORY[:60]
        answer = client.post("/v1/completions", json={"model": "x", "prompt": PROMPT, "max_tokens": 5})
        assert answer.json()["choices"][0]["text"] == STORY[:5]
        card = client.get("/v1/models").json()["data"][0]
        assert card["id"] == "scripted" and card["max_model_len"] == 1 << 15


@pytest.mark.parametrize("flag", ["--lora"])
def test_what_belongs_to_a_model_here_is_refused(
    server: Scripted, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--serve", "--port", "0", "--connect", server.url, flag, str(tmp_path)]
    assert cli.main(arguments) == 2
    assert flag in (words := capsys.readouterr().err) and "--connect" in words


def test_one_address_is_taken_and_several_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[model]\nconnect = ["http://a:1", "http://b:2"]\n')
    monkeypatch.setenv("SRBWRITER_CONNECT", "http://a:1,http://b:2")
    arguments = ["write", PROMPT, "--config", str(file)]
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    for place in (f"{file}:2: model.connect = ", "SRBWRITER_CONNECT = "):
        assert re.search(re.escape(place) + ".*expected one address such as", err)
