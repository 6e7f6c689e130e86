"""What one client is made to wait by others, and by HTTP itself.

``fair``: steps of the batch until the first of eight tokens, while others have it full. ``kept``: one token
on a kept connection, beside the engine's own time.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

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
                    "ignore_eos": True, "key": name,
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
