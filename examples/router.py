"""One address for several srbwriter servers: the model chooses among them, and a text stays where it began.

    srbwriter --serve --port 9091 -m small.gguf
    srbwriter --serve --port 9092 -m large.gguf
    python router.py small=http://127.0.0.1:9091 large=http://127.0.0.1:9092

A request goes to a server of the name in its `model` field, or in `?model=`; without one to the first name.
Where several servers have that name, it goes to the one that has read the longest beginning of its prompt,
and has it in its cache; a text that begins like no other goes where least is running.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PIECE = 64  # characters by which beginnings are compared
KEPT = 100_000  # beginnings that are remembered
OWN = {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class Server:
    def __init__(self, name: str, url: str) -> None:
        self.name, self.place = name, urlsplit(url).netloc
        self.running = self.begun = 0


class Choice:
    """Which server a request goes to."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers
        self._lock = threading.Lock()
        self._readers: OrderedDict[str, Server] = OrderedDict()  # by beginning: who has read it

    def of(self, name: str, text: str) -> Server | None:
        """The server, which has one more to answer then; None where none has the name."""
        name = name or self.servers[0].name
        named = [server for server in self.servers if server.name == name]
        beginnings = [*self._beginnings(name, text)]
        with self._lock:
            known = (self._readers.get(one) for one in reversed(beginnings))
            server = next(filter(None, known), None)
            if server is None and named:
                server = min(named, key=lambda one: (one.running, one.begun))
                server.begun += 1
            if server is not None:
                server.running += 1
                for one in beginnings:
                    self._readers[one] = server
                    self._readers.move_to_end(one)
            while len(self._readers) > KEPT:
                self._readers.popitem(last=False)
        return server

    def _beginnings(self, name: str, text: str) -> Iterator[str]:
        """Marks of a text's beginnings, each longer by a piece than the one before."""
        mark = hashlib.sha256(name.encode())
        for end in range(PIECE, len(text) + 1, PIECE):
            mark.update(text[end - PIECE : end].encode("utf-8", "surrogatepass"))
            yield mark.hexdigest()

    def ended(self, server: Server) -> None:
        with self._lock:
            server.running -= 1


def prompt_of(body: dict[str, Any]) -> str:
    """What the model is to read, as far as it matters to tell beginnings apart."""
    told = next((body[name] for name in ("prompt", "messages", "input", "message") if body.get(name)), "")
    return told if isinstance(told, str) else json.dumps(told)[:-1]  # a list grows before its bracket


class Handler(BaseHTTPRequestHandler):
    choice: Choice

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told: Any = None
        with contextlib.suppress(ValueError):
            told = json.loads(body)
        fields: dict[str, Any] = told if isinstance(told, dict) else {}
        asked = parse_qs(urlsplit(self.path).query).get("model", [""])[0]
        name = asked or str(fields.get("model") or "")
        server = self.choice.of(name, prompt_of(fields))
        if server is None:
            names = ", ".join(dict.fromkeys(server.name for server in self.choice.servers))
            self.refuse(404, f"there is no model {name}; there are {names}")
            return
        try:
            self.hand_on(server, body)
        except OSError as error:
            self.refuse(502, f"the server of {server.name} does not answer: {error}")
        finally:
            self.choice.ended(server)

    do_GET = do_POST = do_PATCH = do_DELETE = do_OPTIONS = answer  # noqa: N815

    def hand_on(self, server: Server, body: bytes) -> None:
        """Ask a server, and pass its answer on as it comes. Raises OSError if there is none."""
        upstream = HTTPConnection(server.place, timeout=600)
        try:
            headers = {key: value for key, value in self.headers.items() if key.lower() not in OWN}
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            with contextlib.suppress(ConnectionError):  # the client left: closing tells the server
                self.send_response(answer.status)
                for key, value in answer.getheaders():
                    if key.lower() not in OWN:
                        self.send_header(key, value)
                self.end_headers()
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
        finally:
            upstream.close()

    def refuse(self, status: int, message: str) -> None:
        told = {"error": {"code": status, "message": message, "type": "not_found_error"}}
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description="One address for several srbwriter servers.")
    parser.add_argument("--port", type=int, default=9090)
    parser.add_argument("servers", nargs="+", metavar="NAME=URL")
    told = parser.parse_args()
    Handler.choice = Choice([Server(*server.split("=", 1)) for server in told.servers])
    with ThreadingHTTPServer(("127.0.0.1", told.port), Handler) as front:
        print(f"listening on http://127.0.0.1:{front.server_port}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            front.serve_forever()


if __name__ == "__main__":
    main()
