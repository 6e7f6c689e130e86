"""A server without a model: it goes on with one known text, and breaks off, stalls or lies when it is told
to.

Speaks as much of vLLM and plain OpenAI as is asked for; as "koboldcpp" the latter, one branch a request. A
token is a character.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROMPT = "Once upon a time"
STORY = " ".join(f"the {number}. naïve fox 🦊 met a hare;" for number in range(6))

Fault = Callable[["Handler"], bool]
"""Called for a request for text; True: it has dealt with it."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.heard.append((self.path, dict(self.headers), None))
        answers: dict[str, Any] = {
            "/v1/models": {
                "object": "list",
                "data": [{"id": "scripted", "owned_by": self.server.owner, "max_model_len": 1 << 15}],
            },
            "/version": {"version": "0"},
        }
        if self.server.wanted_key and self.headers["Authorization"] != f"Bearer {self.server.wanted_key}":
            self.answer(401, {"error": {"message": "no such key"}})
        elif self.path not in answers:
            self.answer(404, {"detail": "Not Found"})
        else:
            self.answer(200, answers[self.path])

    def do_POST(self) -> None:
        body = self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heard.append((self.path, dict(self.headers), body))
        with self.server.working():
            fault = self.server.faults.popleft() if self.server.faults else self.server.always
            if fault is None or not fault(self):
                self.write(body)

    def answer(self, status: int, value: Any, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json"}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def frame(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def drop(self) -> None:
        """End the connection without a word."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def write(self, body: dict[str, Any], most: int | None = None) -> bool:
        """Go on with the story from where the prompt stops; False when nobody listens any more."""
        text = body["prompt"]
        assert (PROMPT + STORY).startswith(text), "the text has a gap"
        rest = (PROMPT + STORY)[len(text) :]
        limit = body["max_tokens"]
        tokens = rest if limit is None else rest[:limit]
        n = 1 if self.server.owner == "koboldcpp" else body.get("n", 1)
        self.begin()
        try:
            for token in tokens[:most]:
                for index in range(n):
                    self.frame(self.event(index, token, None))
                self.server.pace(self.connection)
            if most is not None:
                return True
            reason = "stop" if len(tokens) == len(rest) else "length"
            for index in range(n):
                self.frame(self.event(index, "", reason))
            self.frame(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.server.left.set()
            self.close_connection = True
            return False
        return True

    def event(self, index: int, token: str, reason: str | None) -> bytes:
        choice: dict[str, Any] = {"index": index, "text": token, "finish_reason": reason}
        if token and self.body.get("logprobs") is not None:
            choice["logprobs"] = {"token_logprobs": [-0.5]}
        return b"data: %b\n\n" % json.dumps({"choices": [choice]}, ensure_ascii=False).encode()


class Scripted(ThreadingHTTPServer):
    """Runs from its making until :meth:`close`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: str = "vllm", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:  # a client's handshake is read on its own thread
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.owner, self.wanted_key = owner, ""
        self.faults: deque[Fault | None] = deque()  # of the next requests for text, one each
        self.always: Fault | None = None
        self.heard: list[tuple[str, dict[str, str], Any]] = []
        self.left = threading.Event()  # somebody closed the connection while there was more to say
        self.most = self._now = 0  # requests for text at the same time
        self._changed = threading.Condition()
        self.hold = threading.Event()  # while it is not set, only one token comes
        self.hold.set()
        self.gaps: list[AssertionError] = []  # requests whose text is not a beginning of the story
        self.begun, self.over = 0, threading.Semaphore(0)  # connections, and those that have ended
        self.steps: threading.Semaphore | None = None  # one is taken before each token but the first
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.begun += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.over.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()  # else a connection that a client closed
        if isinstance(error, AssertionError):
            self.gaps.append(error)

    def pace(self, connection: socket.socket) -> None:
        """Wait until the next token may come. Raises OSError when nobody waits for it any more."""
        peek = 0 if isinstance(connection, ssl.SSLSocket) else socket.MSG_PEEK
        while not self.hold.wait(0.02) or (self.steps is not None and not self.steps.acquire(timeout=0.02)):
            if select.select([connection], [], [], 0)[0] and not connection.recv(1, peek):
                raise BrokenPipeError

    def working(self) -> _Counted:
        return _Counted(self)

    def count(self, change: int) -> None:
        with self._changed:
            self._now += change
            self.most = max(self.most, self._now)
            self._changed.notify_all()

    def rests(self, seconds: float) -> bool:
        """Wait until no completion is being written; whether that was so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._now, seconds)

    def close(self) -> None:
        self.hold.set()
        self.shutdown()
        self.server_close()


class _Counted:
    def __init__(self, server: Scripted) -> None:
        self._server = server

    def __enter__(self) -> None:
        self._server.count(1)

    def __exit__(self, *_: object) -> None:
        self._server.count(-1)


# ---- what can go wrong


def answers(status: int, value: Any, **headers: str) -> Fault:
    def fault(handler: Handler) -> bool:
        handler.answer(status, value, **headers)
        return True

    return fault


def drops_after(tokens: int) -> Fault:
    def fault(handler: Handler) -> bool:
        handler.write(handler.body, tokens)
        handler.drop()
        return True

    return fault


def lies_after(tokens: int, lie: bytes) -> Fault:
    """Something else than an event comes, then all goes on as if nothing had been."""

    def fault(handler: Handler) -> bool:
        body = handler.body
        handler.write(body, tokens)
        handler.frame(lie)
        handler.drop()
        return True

    return fault


def misnumbers_after(tokens: int, choices: list[dict[str, Any]]) -> Fault:
    """An event with ``choices`` comes, then all goes on as if nothing had been."""

    def fault(handler: Handler) -> bool:
        body = handler.body
        handler.write(body, tokens)
        for choice in choices:
            choice |= {"finish_reason": None}
        handler.frame(b"data: %b\n\n" % json.dumps({"choices": choices}).encode())
        for index in range(body.get("n", 1)):
            handler.frame(handler.event(index, STORY[tokens], None))
        handler.drop()
        return True

    return fault


def stalls_after(tokens: int, until: threading.Event) -> Fault:
    def fault(handler: Handler) -> bool:
        handler.write(handler.body, tokens)
        until.wait(120)
        handler.drop()
        return True

    return fault
