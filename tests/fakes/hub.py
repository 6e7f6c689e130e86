"""A hub on this machine: repositories, redirects to a second host, ranges, tokens, and trouble on demand."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Message
    by_storage: bool


@dataclass
class Hub:
    """What the hub holds and how it behaves. Change it while it runs."""

    url: str = ""
    storage: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    token: str = ""
    gated: bool = False
    """Files are refused, as those of gated repositories are; the list of files is public."""
    ranges: bool = True
    cut_after: list[int] = field(default_factory=list)
    """Answers end after so many bytes of content, one entry for each, as if the line had gone dead."""
    statuses: list[int] = field(default_factory=list)
    """The next files are answered with these statuses."""
    hold_after: int | None = None
    """The next answer stops after so many bytes, sets ``held``, and waits for ``release``; later ones do so
    at once."""
    held: Event = field(default_factory=Event)
    release: Event = field(default_factory=Event)
    flipped: set[str] = field(default_factory=set)
    """Files that arrive with a bit turned over."""
    asked: list[Asked] = field(default_factory=list)

    def listing(self, repo: str) -> dict[str, Any]:
        siblings: list[dict[str, Any]] = [{"rfilename": "README.md", "size": 9, "blobId": "aa"}]
        for name, data in self.repositories[repo].items():
            lfs = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            siblings.append({"rfilename": name, "size": len(data), "blobId": "bb", "lfs": lfs})
        return {"id": repo, "sha": COMMIT, "siblings": siblings}

    def content(self, path: str) -> bytes | None:
        found = re.fullmatch(rf"/([\w.-]+/[\w.-]+)/resolve/(?:{COMMIT}|main)/(.+)", path)
        return self.repositories.get(found[1], {}).get(found[2]) if found else None

    def files_asked(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.by_storage and asked.method == "GET"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub
    is_storage = False

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(Asked(self.command, self.path, self.headers, self.is_storage))
        if self.is_storage:
            return self._file(path)
        if self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._send(401, b"{}", {})
        if path.startswith("/api/models/"):
            repo = path.removeprefix("/api/models/")
            if repo not in self.hub.repositories:
                return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return self._send(200, json.dumps(self.hub.listing(repo)).encode(), {})
        if self.hub.gated:
            status = 403 if self.headers.get("Authorization") else 401
            return self._send(status, b"{}", {"X-Error-Code": "GatedRepo"})
        data = self.hub.content(path)
        if data is None:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        digest = hashlib.sha256(data).hexdigest()
        self._send(
            302, b"", {"Location": self.hub.storage + self.path, "X-Linked-Etag": f'"{digest}"',
                       "X-Linked-Size": str(len(data))},
        )  # fmt: skip

    def _file(self, path: str) -> None:
        data = self.hub.content(path)
        if data is None:
            return self._send(404, b"", {})
        if self.command == "GET" and self.hub.statuses:
            return self._send(self.hub.statuses.pop(0), b"not now", {})
        if path.rpartition("/")[2] in self.hub.flipped:
            data = data[:-1] + bytes([data[-1] ^ 1])
        headers = {"ETag": '"first"', "Accept-Ranges": "bytes"}
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not found or not self.hub.ranges:
            return self._send(200, data, headers)
        start, end = int(found[1]), min(int(found[2] or len(data) - 1), len(data) - 1)
        if start >= len(data):
            return self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
        self._send(206, data[start : end + 1], headers)

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, content in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, content)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.is_storage and status in (200, 206) and self.hub.hold_after is not None:
            first, self.hub.hold_after = self.hub.hold_after, 0
            self.wfile.write(data[:first])
            self.hub.held.set()
            self.hub.release.wait(60)
            self.close_connection = True
            return
        whole = not (self.is_storage and status in (200, 206) and self.hub.cut_after)
        self.wfile.write(data if whole else data[: self.hub.cut_after.pop(0)])
        if not whole:
            self.close_connection = True


@contextmanager
def running() -> Iterator[Hub]:
    """A hub that answers until the block ends, and its storage on another port."""
    hub = Hub()
    servers = [
        ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), {"hub": hub, "is_storage": storage}))
        for storage in (False, True)
    ]
    hub.url, hub.storage = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    threads = [Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        hub.release.set()
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()
