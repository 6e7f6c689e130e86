"""What one client is made to wait by others: ``fair`` among requests, ``health`` beside long work.

``fair``: steps of the batch until the first of eight tokens, while others have it full. ``health``: how long
``/health`` takes, asked every 10 ms by another process, while a request is made that takes seconds to answer.
``heads``: how long it takes on new connections, while hundreds of others never end the head of their request
and the process may open few files. ``kept``: one token on a kept connection, beside the engine's own time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import numpy as np

from benchmarks.engine.setting import Setting, story_ids
from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Request, Stop
from srbwriter.server import Loaded, ServerSettings, start_in_thread

from . import crowd

MOST_SECONDS = 30.0  # that a first token is waited for; then the figures are what it took at least
LOADS = {"one request of 64 × {long}": (1, 64), "16 clients of 4 × {long}": (16, 4)}
"""Clients, and branches of each."""


@contextmanager
def served(engine: Engine, **settings: Any) -> Iterator[str]:
    """The server in this process, as beside the terminal app."""
    handle = start_in_thread(
        Loaded(engine), ServerSettings(port=0, access_log=False, max_requests=4096, **settings)
    )
    try:
        yield handle.url
    finally:
        handle.stop()


def fair(setting: Setting, args: argparse.Namespace) -> None:
    """Steps to the first token of a small request while others write; aim: 10 at most."""
    names = [f"client{k}" for k in range(16)]
    keys = (*(f"{name} {name}" for name in names), "small small")
    options = replace(setting.options(cells=args.cells), max_branches=64)
    print(f"\nAn 8-token request, {args.tries} times, while others have the batch full (aim: ≤ 10 steps)\n")
    print(
        "| others | steps to the first token, median / most | since it was sent | "
        "seconds, median / most | tokens of the others |"
    )
    print("|---|---|---|---|---|")
    for title, (clients, n) in LOADS.items():
        with Engine.load(setting.model, options) as engine, served(engine, api_keys=keys, max_n=64) as url:
            bodies = [
                {
                    "prompt": story_ids(engine, 64, salt=name), "n": n, "n_predict": args.long,
                    "ignore_eos": True, "overflow": "shift", "key": name,
                }
                for name in names[:clients]
            ]  # fmt: skip
            with _crowd(crowd.Job(url, bodies)):
                _until(lambda: engine.stats().generated_tokens > 64 * 4)
                seen = [_first_token(engine, url, k) for k in range(args.tries)]
                written = engine.stats().generated_tokens
        steps, sent, seconds = zip(*seen, strict=True)
        figures = [f"{statistics.median(counted):.0f} / {max(counted)}" for counted in (steps, sent)]
        waited = f"{statistics.median(seconds):.3f} / {max(seconds):.3f}"
        print(f"| {title.format(long=args.long)} | {' | '.join(figures)} | {waited} | {written} |")


@contextmanager
def _crowd(job: crowd.Job) -> Iterator[None]:
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server.crowd"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdin is not None
    with child.stdin:
        child.stdin.write(json.dumps(asdict(job)))
    try:
        yield
    finally:
        child.terminate()
        child.wait()


def _until(ready: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError("the crowd does not write")
        time.sleep(0.02)


def _first_token(engine: Engine, url: str, number: int) -> tuple[int, int, float]:
    """Steps of the batch until a small request's first token: since the engine has it, and since it was sent.

    And the seconds. On a busy machine steps pass before the server has been given time to read the request.
    """
    address = urlsplit(url)
    body = {"prompt": f"Small tale {number}:", "n_predict": 8, "stream": True, "cache_prompt": False}
    data = json.dumps(body).encode()
    came = 0
    submit = engine.submit

    def watched(request: Request) -> Generation:
        nonlocal came
        came = engine.stats().decodes
        return submit(request)

    with (
        socket.create_connection((address.hostname, address.port)) as plug,
        patch.object(engine, "submit", watched),
    ):
        plug.settimeout(MOST_SECONDS)
        before, begun = engine.stats().decodes, time.perf_counter()
        plug.sendall(
            b"POST /completion HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer small\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)
        )
        seen = b""
        try:
            while b'"stop":false' not in seen and (piece := plug.recv(65536)):
                seen += piece
        except TimeoutError:
            seen = b'"stop":false'
        now, seconds = engine.stats().decodes, time.perf_counter() - begun
        if b'"stop":false' not in seen:
            raise RuntimeError(seen.decode()[:300])
        with contextlib.suppress(TimeoutError):
            while plug.recv(65536):
                pass
    return now - (came or before), now - before, seconds


# ---- health beside long work

STORY = {"prompt": "Once upon a time,", "ignore_eos": True}
PATTERN = "(((([a-z]{1,10} ){1,10}\\.){1,10}\\n){1,10})"
KNOWN = {**STORY, "model": "m", "n": 64, "logprobs": 100, "max_tokens": 48}
TEXT = "a tale "


def _said(words: str) -> dict[str, str]:
    return {"role": "user", "content": words}


CASES: Mapping[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "64 × logprobs 100, 48 tokens": ("/v1/completions", lambda: KNOWN),
    "the same, streamed": ("/v1/completions", lambda: {**KNOWN, "stream": True}),
    "detokenise 3 000 000 ids": ("/detokenize", lambda: {"tokens": [300] * 3_000_000}),
    "detokenise 1 000 000 ids": ("/detokenize", lambda: {"tokens": [300] * 1_000_000}),
    "tokenise 16 MB with pieces": ("/tokenize", lambda: {"content": TEXT * 2_250_000, "with_pieces": True}),
    "tokenise 4 MB with pieces": ("/tokenize", lambda: {"content": TEXT * 570_000, "with_pieces": True}),
    "a nested regex": ("/completion", lambda: {**STORY, "n_predict": 48, "n": 8, "regex": PATTERN}),
    "a prompt of 1 000 000 ids": ("/completion", lambda: {"prompt": [300] * 1_000_000}),
    "100 000 biases by text": (
        "/completion", lambda: {**STORY, "logit_bias": {f"{k} cat": 1 for k in range(100_000)}}
    ),
    "65 000 biases by text": (
        "/completion", lambda: {**STORY, "n_predict": 1, "logit_bias": {f"w{k}": 1 for k in range(65_000)}}
    ),
    "4096 messages": ("/v1/chat/completions", lambda: {"messages": [_said(TEXT * 9)] * 4096}),
    "4096 messages, what fits of them answered": (
        "/v1/chat/completions",
        lambda: {"messages": [_said("Go on.")] * 4096, "max_tokens": 4, "overflow": "truncate"},
    ),
}  # fmt: skip


def health(setting: Setting, args: argparse.Namespace) -> None:
    """Waits of ``/health``; aim: p99 ≤ 50 ms."""
    options = replace(setting.options(cells=args.cells), max_branches=64)
    print("\n/health every 10 ms meanwhile (aim: p99 ≤ 50 ms)\n")
    print("| request | status | seconds | p50 / p99 / longest, ms | asked |")
    print("|---|---|---|---|---|")
    with Engine.load(setting.model, options) as engine, served(engine, max_n=64) as url:
        with _asking(url) as waits:
            time.sleep(2.0)
        _row("nothing", "–", 2.0, waits)
        for title, (path, make) in CASES.items():
            data = json.dumps(make()).encode()
            with _asking(url) as waits:
                begun = time.perf_counter()
                status = _post(url, path, data)
                seconds = time.perf_counter() - begun
            _row(title, status, seconds, waits)


def _row(title: str, status: str, seconds: float, waits: list[float]) -> None:
    middle, late = np.quantile(waits, (0.5, 0.99)) * 1000
    figures = f"{middle:.1f} / {late:.1f} / {max(waits) * 1000:.0f}"
    cells = [title, *([status] if status else []), f"{seconds:.2f}", figures, str(len(waits))]
    print(f"| {' | '.join(cells)} |")


def _post(url: str, path: str, data: bytes) -> str:
    """By curl: a client in this process would take the interpreter from the server."""
    command = [
        "curl",
        "-sS",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-H",
        "Expect:",
        "--data-binary",
        "@-",
        url + path,
    ]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout.decode()


_ASK = """
import http.client, sys, threading, time
from urllib.parse import urlsplit
address = urlsplit(sys.argv[1])
http = http.client.HTTPConnection(address.hostname, address.port)
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
waits = []
print("ready", flush=True)
while not over.is_set() or len(waits) < 3:
    begun = time.perf_counter()
    http.request("GET", "/health"); assert http.getresponse().read()
    if "new" in sys.argv: http.close()
    waits.append(time.perf_counter() - begun)
    time.sleep(max(0.0, 0.01 - waits[-1]))
print(*waits)
"""


@contextmanager
def _asking(url: str, *how: str) -> Iterator[list[float]]:
    """Waits of ``/health``, filled when the context is left; ``new``: each on a connection of its own."""
    waits: list[float] = []
    child = subprocess.Popen(
        [sys.executable, "-c", _ASK, url, *how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdout.readline()
    try:
        yield waits
    finally:
        child.stdin.close()
        with child.stdout:
            waits += map(float, child.stdout.read().split())
        child.wait()


# ---- one token on a kept connection

_KEPT = """
import http.client, json, sys, time
from urllib.parse import urlsplit
address = urlsplit(sys.argv[1])
http = http.client.HTTPConnection(address.hostname, address.port)
http.request("GET", "/health"); http.getresponse().read()
for line in sys.stdin:
    body = line.encode()
    begun = time.perf_counter()
    http.request("POST", "/completion", body)
    answer = http.getresponse(); told = answer.read()
    seconds = time.perf_counter() - begun
    assert answer.status == 200 and json.loads(told)["tokens_predicted"] == 1, told[:300]
    print(seconds, flush=True)
"""


def kept(setting: Setting, args: argparse.Namespace) -> None:
    """A completion of one token on a kept connection, beside the engine's own time; aim: 1.2 at most."""
    print(f"\nOne token, {args.turns} times on a kept connection (aim: ≤ 1.2 × the engine's own time)\n")
    print("| new tokens of the prompt | engine, ms | over HTTP, ms | ratio | ratio of means |")
    print("|---|---|---|---|---|")
    with Engine.load(setting.model, setting.options()) as engine, served(engine) as url:
        child = subprocess.Popen(
            [sys.executable, "-c", _KEPT, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdin is not None and child.stdout is not None
        story = story_ids(engine, setting.prompt)
        for new in (1, len(story)):
            direct, theirs = list[float](), list[float]()
            for turn in range(args.turns + 3):
                asked = [
                    story[:-1] + [300 + 2 * turn + side] if new == 1
                    else story_ids(engine, setting.prompt, salt=f"Tale {turn} {side} {new}: ")
                    for side in range(2)
                ]  # fmt: skip
                begun = time.perf_counter()
                engine.submit(Request(asked[0], stop=Stop(max_tokens=1, ignore_eog=True))).wait()
                direct.append(time.perf_counter() - begun)
                body = {"prompt": asked[1], "n_predict": 1, "ignore_eos": True}
                child.stdin.write(json.dumps(body) + "\n")
                child.stdin.flush()
                theirs.append(float(child.stdout.readline()))
            direct, theirs = direct[3:], theirs[3:]  # the first ones warm what they use
            own, over = statistics.median(direct), statistics.median(theirs)
            whole = statistics.fmean(theirs) / statistics.fmean(direct)
            print(f"| {new} | {own * 1000:.2f} | {over * 1000:.2f} | {over / own:.2f} | {whole:.2f} |")
        child.stdin.close()
        child.wait()
        child.stdout.close()
