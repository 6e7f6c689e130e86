"""``srbwriter write --connect`` where something is wrong: what is said, how soon, and the exit code."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from srbwriter import cli
from srbwriter.cli.exits import Exit
from tests.engine.scripted import PROMPT


def line(url: str, *more: str) -> list[str]:
    return ["write", PROMPT, "--connect", url, "-n", "2", "--max-tokens", "60", *more]


def test_nobody_there_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert cli.main(line(url)) == Exit.ERROR
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith(f"srbwriter: {url}: no connection (") and said.endswith("is the server running?")


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
    ((302, b"", "{path}"), "it sends us on to {url}/v1/models, which is not followed"),
    ((200, b'{"ok": true}'), f"it lists no model; {ENGINE}, with the right port"),
    ((401, b'{"error": "no key"}'), "it wants another key (no key); give it with --connect-key"),
    ((404, b"nothing"), f"it has nothing at /v1/models (nothing); {ENGINE}"),
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
