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
    ("s", '{"prompt": 1}', "prompt: expected text"),
    ("s", '{"system_prompt": {"prompt": ["Be brief."]}}', "prompt: expected text"),
    ("s", '{"text": "Be brief."}', "there is no field 'text'"),
    ("s", '{"system_prompt": {"prompt": "Be brief.", "stop": "User:"}}', "there is no field 'stop'"),
    ("s", '{"system_prompt": {"prompt": "Be brief."}, "prompt": "x"}', "stands beside 'system_prompt'"),
    ("s", '{"system_prompt": 5}', "system_prompt: expected text or an object"),
    ("s", '{"system_prompt": {"prompt": "Be brief."},}', "this is no JSON"),
    ("s", "{}", "empty"),
    ("s", '["Be brief."]', "this is a JSON list"),
    ("s.json", '{"prompt": "Be brief."', "this is no JSON"),
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
    ("/srb/v1/requests", {"prompt": "Once"}),
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


def test_the_system_prompt_is_the_first_message(serve: Serve, engine: FakeEngine, tmp_path: Path) -> None:
    file = tmp_path / "system"
    file.write_text("Be brief.")
    said = {"role": "user", "content": "Once"}
    no_system = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    silent = "{% for m in messages if m.role != 'system' %}{{ m.content }}|{% endfor %}"
    for template, messages, prompt in (
        ("chatml", [said], "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOnce<|im_end|>\n"),
        ("{{ messages|map(attribute='content')|join('|') }}", [{"role": "system", "content": "Rhyme."}, said],
         "Be brief.\n\nRhyme.|Once"),
        (no_system + silent, [said], "Be brief.\n\nOnce|"),
        (silent, [said], "Be brief.\n\nOnce|"),
    ):  # fmt: skip
        with httpx.Client(base_url=serve(system_prompt_file=file, chat_template=template).url) as http:
            http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 1})
            assert str(engine.submitted[-1].prompt).startswith(prompt)
            # A prompt to be sent back to /completion has it put before it there.
            shown = http.post("/apply-template", json={"messages": messages}).json()["prompt"]
            assert "Be brief." not in shown


def test_the_system_prompt_is_neither_cut_nor_doubled(
    serve: Serve, engine: FakeEngine, tmp_path: Path
) -> None:
    file = tmp_path / "system"
    file.write_text("The cat.")
    with httpx.Client(base_url=serve(system_prompt_file=file).url) as http:
        asked = {**BODY, "overflow": "shift", "n_keep": 2}
        http.post("/completion", json=asked)
        assert engine.submitted[-1].n_keep == 2 + len(engine.tokenize("The cat.", add_bos=True))
        echo = {"prompt": "Once", "model": "m", "echo": True, "max_tokens": 0, "logprobs": 0}
        (choice,) = http.post("/v1/completions", json=echo).json()["choices"]
        assert choice["text"] == "The cat.Once"
        id = http.post("/srb/v1/requests", json={"prompt": "Once", "n": 1, "max_tokens": 1}).json()["id"]
        following = {"parent": {"request": id, "branch": 0}, "n": 1, "max_tokens": 1}
        http.post("/srb/v1/completions", json=following)
        assert engine.detokenize(engine.generations[-1].prompt_ids).count("The cat.") == 1
        changed = {"system_prompt": {"prompt": "", "anti_prompt": "You:"}, **BODY}
        http.post("/completion", json=changed)
        assert engine.submitted[-1].prompt == "Once" and http.get("/props").json()["user_name"] == "You:"


def test_a_socket_file_is_taken_over_only_when_nobody_listens(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(file))
    handle = serve(unix_socket=file)
    assert handle.url == f"unix:{file}" and file.stat().st_mode & 0o077 == 0
    with pytest.raises(ServerError, match="another server does"):
        serve(unix_socket=file)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(file)), base_url="http://anything") as http:
        assert http.get("/health").json()["status"] == "ok"
    handle.stop(10)
    assert not file.exists()


def test_several_addresses_with_commas_and_a_socket_file(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "s.sock"
    handle = serve(host=(f"127.0.0.1, 127.0.0.2,{file}", "127.0.0.3"))
    assert handle.url == " and ".join(
        (f"http://127.0.0.1:{handle.port}", f"http://127.0.0.2:{handle.port}", f"unix:{file}",
         f"http://127.0.0.3:{handle.port}")
    )  # fmt: skip
    for number in (1, 2, 3):
        assert httpx.get(f"http://127.0.0.{number}:{handle.port}/health").json()["status"] == "ok"
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(file)), base_url="http://localhost") as http:
        assert http.get("/health").json()["status"] == "ok"
    handle.stop(10)
    assert not file.exists()


def test_addresses_that_are_none(serve: Serve) -> None:
    with pytest.raises(ServerError, match="at least one address"):
        serve(host=(" , ",))
    with pytest.raises(ServerError, match=r"0\.0\.0\.0 can be reached"):
        serve(host=("127.0.0.1,0.0.0.0",))
