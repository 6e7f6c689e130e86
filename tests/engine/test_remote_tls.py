"""An engine behind TLS: whose certificate is taken, and many branches beside each other."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypercorn.asyncio import serve
from hypercorn.config import Config

from srbwriter.engine.generation import Generation
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import FinishReason, RemoteError, Request, Sampling, Stop

from .scripted import PROMPT, STORY
from .test_backend import WAIT, until

NO_END = Stop(max_tokens=None)
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Behind:
    """A scripted vLLM behind TLS, on a thread of its own until :meth:`close`."""

    def __init__(self, authority: trustme.CA, folder: Path) -> None:
        certificate = authority.issue_cert("127.0.0.1")
        key, chain = folder / "key.pem", folder / "chain.pem"
        certificate.private_key_pem.write_to_path(key)
        chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        self.config = Config()
        self.config.bind = [f"fd://{listening.detach()}"]
        self.config.certfile, self.config.keyfile = str(chain), str(key)
        self.config.alpn_protocols = ["h2", "http/1.1"]
        self.config.accesslog = self.config.errorlog = None
        self.versions: set[str] = set()
        self.writing = self.left = 0
        self.go_on = threading.Event()  # while it is not set, only ten tokens come
        self.changed = threading.Condition()
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        self.loop.run_until_complete(serve(self.app, self.config, shutdown_trigger=self.over.wait))  # pyright: ignore
        self.loop.close()

    def close(self) -> None:
        self.go_on.set()
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join(30)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of connections that hypercorn left behind
            gc.collect()

    def count(self, writing: int, left: int = 0) -> None:
        with self.changed:
            self.writing += writing
            self.left += left
            self.changed.notify_all()

    def until(self, writing: int, left: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: (self.writing, self.left) == (writing, left), WAIT)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.versions.add(scope["http_version"])
        data, more = b"", True
        while more:
            event = await receive()
            data, more = data + event.get("body", b""), event.get("more_body", False)
        body = json.loads(data or b"{}")
        match scope["path"]:
            case "/v1/models":
                card = {"id": "scripted", "owned_by": "vllm", "max_model_len": 1 << 15}
                await self.answer(send, {"data": [card]})
            case "/version":
                await self.answer(send, {"version": "0"})
            case "/tokenize":
                await self.answer(send, {"tokens": list(map(ord, body["prompt"]))})
            case "/detokenize":
                await self.answer(send, {"prompt": "".join(map(chr, body["tokens"]))})
            case _:
                await self.write(body, receive, send)

    async def answer(self, send: Any, value: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(value).encode()})

    async def write(self, body: Any, receive: Any, send: Any) -> None:
        text = "".join(map(chr, body["prompt"]))
        assert text.startswith(PROMPT) and STORY.startswith(text[len(PROMPT) :])
        gone = asyncio.create_task(receive())  # the next thing that comes is that somebody left
        self.count(1)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for k, token in enumerate(STORY[len(text) - len(PROMPT) :]):
                while k == 10 and not (self.go_on.is_set() or gone.done()):
                    await asyncio.wait({gone}, timeout=0.05)
                if gone.done():
                    self.count(-1, left=1)
                    return
                await self.event(send, token, None)
            await self.event(send, "", "stop")
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
            self.count(-1)
        finally:
            gone.cancel()

    async def event(self, send: Any, token: str, reason: str | None) -> None:
        choice = {"index": 0, "text": token, "token_ids": list(map(ord, token)), "finish_reason": reason}
        data = b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()
        await send({"type": "http.response.body", "body": data, "more_body": True})


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def behind(authority: trustme.CA, tmp_path: Path) -> Iterator[Behind]:
    with closing(Behind(authority, tmp_path)) as it:
        yield it


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


def begun(engine: RemoteEngine, n: int) -> Generation:
    """``n`` branches of their own requests, ten tokens of each written."""
    samplings = tuple(Sampling(temperature=0.5 + 0.01 * k) for k in range(n))
    generation = engine.submit(Request(PROMPT, n=n, sampling=samplings, stop=NO_END))
    until(generation, lambda: all(len(branch.text) == 10 for branch in generation.branches))
    return generation


def test_a_certificate_of_nobody_known_is_refused_with_the_cure(behind: Behind) -> None:
    with pytest.raises(RemoteError, match="certificate is not trusted.*SSL_CERT_FILE.*--no-connect-verify"):
        RemoteEngine.connect(RemoteOptions(behind.url))


def test_any_certificate_is_taken_if_that_is_said(behind: Behind) -> None:
    behind.go_on.set()
    with RemoteEngine.connect(RemoteOptions(behind.url, verify=False)) as engine:
        assert engine.submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]


@pytest.mark.usefixtures("trusted")
@pytest.mark.full
def test_many_branches_and_one_that_is_left(behind: Behind) -> None:
    with RemoteEngine.connect(RemoteOptions(behind.url)) as engine:
        generation = begun(engine, 16)
        behind.until(writing=16, left=0)
        generation.branches[5].kill()
        behind.until(writing=15, left=1)
        generation.branches[6].reroll()
        behind.until(writing=15, left=2)
        behind.go_on.set()
        generation.wait(WAIT)
        for branch in generation.branches:
            assert branch.text == (STORY[:10] if branch.index == 5 else STORY)
        assert generation.branches[5].finish_reason is FinishReason.KILLED
    assert behind.versions == {"1.1"}


@pytest.mark.usefixtures("trusted")
def test_who_is_left_before_it_answered_hears_of_it(behind: Behind) -> None:
    with RemoteEngine.connect(RemoteOptions(behind.url)) as engine:
        behind.go_on.set()
        for _ in range(100):
            together = [engine.submit(Request(PROMPT, stop=NO_END)) for _ in range(4)]
            for generation in together:
                generation.cancel()  # at any moment of asking, writing and reading
            for generation in together:
                generation.wait(WAIT)
        assert engine.submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]
    with behind.changed:
        assert behind.changed.wait_for(lambda: behind.writing == 0, WAIT)
