"""``srbwriter write --connect`` where something is wrong: what is said, how soon, and the exit code."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from srbwriter import cli
from srbwriter.cli.exits import Exit
from tests.engine.scripted import PROMPT, STORY, Scripted, drops_after


def line(url: str, *more: str) -> list[str]:
    return ["write", PROMPT, "--connect", url, "-n", "2", "--max-tokens", "60", *more]


def program(url: str, *more: str) -> subprocess.Popen[str]:
    """The real program, writing with the engine at ``url``."""
    command = [sys.executable, "-m", "srbwriter", *line(url, *more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_server_that_is_started_anew_is_waited_for_in_so_many_words(server: Scripted) -> None:
    server.owner = "openai"  # of which equal branches share a request
    server.faults.append(drops_after(20))
    server.always = lambda handler: handler.drop() is None
    running = program(server.url)
    assert running.stderr is not None
    said = [running.stderr.readline() for _ in range(2)]
    port = server.server_address[1]
    server.close()
    while "connection refused" not in said[-1]:
        said.append(running.stderr.readline())
    with closing(Scripted("openai", port)):
        out, _ = running.communicate(timeout=60)
    assert running.returncode == Exit.OK
    assert out == f"--- 1 of 2 ---\n{STORY[:60]}\n\n--- 2 of 2 ---\n{STORY[:60]}\n"
    assert said[0].endswith(". Trying again now (1 of 8).\n")
    assert all(text.startswith(f"srbwriter: {server.url}: ") for text in said)
    assert "no connection (connection refused). Trying again in " in said[-1]


def test_nobody_there_is_said_with_each_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert cli.main(line(url)) == Exit.ERROR
    refused = f"srbwriter: {url}: no connection (connection refused)"
    assert capsys.readouterr().err.splitlines() == [
        *(f"{refused}. Trying again in {wait} s ({k} of 3)." for k, wait in ((1, 0.25), (2, 0.5), (3, 1))),
        f"{refused}; is the server running?",
    ]


def test_an_address_that_is_none_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for url in ("http://[::1", "http://host:port", "http://host:99999", "ftp://host", "http://", ",",
                "http://host:0"):  # fmt: skip
        assert cli.main(line(url)) == Exit.USAGE
        said = f"--connect {url!r}: expected one address such as http://host:8000"
        assert said in capsys.readouterr().err
    file = tmp_path / "settings.toml"
    file.write_text('[model]\nconnect = ["http://host:8000", "http://[::1"]\n')
    monkeypatch.setenv("SRBWRITER_CONNECT", "http://[::1")
    assert cli.main(["write", PROMPT, "--config", str(file)]) == Exit.USAGE
    err = capsys.readouterr().err
    assert f"{file}:2: model.connect = " in err and "SRBWRITER_CONNECT = 'http://[::1'" in err


# ---- somebody else is there


class Other(ThreadingHTTPServer):
    """Answers everything with one answer."""

    daemon_threads = True

    def __init__(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value.format(path=self.path))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()


PAGE = b"<!DOCTYPE html>\n<html><head><title>My\n router</title></head></html>"


ENGINE = "is the address that of an engine"
OTHERS = (
    ((200, PAGE), f"it answers with a web page; {ENGINE}"),
    (
        (200, b"\xef\xbb\xbf<!-- v 2 -->\n<!DOCTYPE html>"),
        "it answers with a web page",
    ),
    ((200, b"<?xml version='1.0'?>\n<html>"), f"it answers with a web page; {ENGINE}"),
    ((302, b"", "{path}"), "it sends us on to {url}/v1/models, which is not followed"),
    ((200, b'{"ok": true}'), f"it lists no model; {ENGINE}, with the right port"),
    ((301, b"", "https://cupboard{path}"), "it sends us on to https://cupboard/v1/models"),
    ((307, b"", "/llm{path}"), "it sends us on to {url}/llm/v1/models"),
    ((302, b"", "/login"), f"it sends us on to {{url}}/login, which is not followed; {ENGINE}"),
    ((302, b""), "it sends us on to nowhere"),
    ((401, b'{"error": "no key"}'), "it wants another key (no key); give it with --connect-key"),
    ((403, b"no"), "it does not let us in (no); does it want another --connect-key?"),
    ((404, b"nothing"), f"it has nothing at /v1/models (nothing); {ENGINE}"),
    ((200, b"[]"), "it lists no model"),
    ((200, b'{"data": 3}'), "it lists no model"),
)


@pytest.mark.parametrize(("other", "words"), OTHERS)
def test_whoever_else_is_there_is_said_with_the_address_and_a_cure(
    other: tuple[Any, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, body, *location = other
    with closing(Other(status, body, **({"Location": location[0]} if location else {}))) as server:
        assert cli.main(line(server.url)) == Exit.ERROR
        said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and said.startswith(f"srbwriter: {server.url}: ")
    assert words.format(url=server.url, path="") in said


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"It works!", "what it sends cannot be read: b'It works!'"), (b"", "its answer is empty")],
)
def test_an_answer_that_is_none_is_said_with_a_cure(
    body: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Other(200, body)) as server:
        assert cli.main(line(server.url)) == Exit.ERROR
        last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        f"srbwriter: {server.url}: {words}; is the address that of an engine, with the right port and path?"
    )


def test_a_port_without_tls_is_said(server: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line(server.url.replace("http:", "https:"))) == Exit.ERROR
    assert f"if none is spoken at that port, try --connect {server.url}" in capsys.readouterr().err


def test_a_port_with_tls_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    import trustme

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with closing(Other()) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        assert cli.main(line(server.url)) == Exit.ERROR
        secure = server.url.replace("http:", "https:")
    assert f"perhaps TLS is spoken at that port; try --connect {secure}\n" in capsys.readouterr().err
