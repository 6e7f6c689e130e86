"""What a server is told in files and templates when it starts."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from srbwriter.engine.types import TokenRun
from srbwriter.server import ServerError
from srbwriter.server.chat import CHATML_STOPS
from tests.fakes.engine import FakeEngine

from .conftest import Serve

BODY = {"prompt": "Once", "n_predict": 3}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("Be brief.", ("", "")),
        ('{"prompt": "Be brief.", "anti_prompt": "User:", "assistant_name": "Bot:"}', ("Bot:", "User:")),
        ('{"prompt": "Be brief."}', ("", "")),
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


def test_a_system_prompt_of_numbers_is_refused_at_start(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "system"
    file.write_text('{"prompt": 1}')
    with pytest.raises(ServerError, match="prompt: expected text"):
        serve(system_prompt_file=file)


def test_a_template_by_name_and_by_text(serve: Serve, engine: FakeEngine) -> None:
    messages = [{"role": "user", "content": "Once"}]
    for told, prompt, stops in (
        ("chatml", "<|im_start|>user\nOnce<|im_end|>\n<|im_start|>assistant\n", CHATML_STOPS),
        ("{{ messages[0]['content'] }}!", "Once!", ()),
    ):
        with httpx.Client(base_url=serve(chat_template=told).url) as http:
            assert http.post("/apply-template", json={"messages": messages}).json() == {"prompt": prompt}
            http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 1})
            assert engine.submitted[-1].stop.strings == stops
            assert "{{" in http.get("/props").json()["chat_template"]


def test_a_socket_file_is_taken_over_only_when_nobody_listens(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(file))
    serve(unix_socket=file)
    with pytest.raises(ServerError, match="another server does"):
        serve(unix_socket=file)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(file)), base_url="http://localhost") as http:
        assert http.get("/health").status_code == 200


def test_no_answer_waits_for_a_fuller_packet(serve: Serve) -> None:
    """Nagle's algorithm would hold the end of each answer on a kept connection back for 40 ms."""
    handle = serve()
    with httpx.Client(base_url=handle.url) as http:
        assert [http.post("/completion", json=BODY).status_code for _ in range(2)] == [200, 200]
        (connection,) = handle._server.server_state.connections
        accepted: socket.socket = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


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
