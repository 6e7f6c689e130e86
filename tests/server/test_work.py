"""Long work keeps nobody waiting: every case asks /health meanwhile, and the loop's own work is measured."""

from __future__ import annotations

import gc
import json
import threading
import time
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.engine import limits
from srbwriter.server import work
from srbwriter.server.errors import ApiError
from tests.fakes.engine import FakeEngine
from tests.sizes import some_of

from .conftest import Serve

MOST_OF_THE_LOOP = (
    0.04  # seconds of processor time in one piece; the aim is 5 ms, and this is another machine
)
MOST_WAIT = 2.0  # seconds; each case took longer by far on the loop, and the machine may be busy

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The longest pieces of work that any event loop has done, in seconds of processor time.

    Not of the collector's looks at what the tests before have left in this process.
    """
    seen = [0.0]
    gc.collect()
    gc.freeze()
    run: Callable[[Any], None] = events.Handle._run

    def measured(self: Any) -> None:
        begun = time.thread_time()
        run(self)
        seen[0] = max(seen[0], time.thread_time() - begun)

    monkeypatch.setattr(events.Handle, "_run", measured)
    yield seen
    gc.unfreeze()


@contextmanager
def watched(url: str) -> Iterator[list[float]]:
    """How long /health took, again and again on a connection of its own."""
    waits: list[float] = []
    over = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60) as http:
            while not over.is_set() or not waits:
                begun = time.perf_counter()
                assert http.get("/health").status_code == 200
                waits.append(time.perf_counter() - begun)
                over.wait(0.01)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join(60)


STORY = " there was a cat. " * 200
MESSAGE = [{"role": "user", "content": "Once"}]
CASES: dict[str, tuple[str, Callable[[], dict[str, Any]], int]] = {
    "log-probabilities": (
        "/v1/completions",
        lambda: {"model": "m", "prompt": "Once", "n": 64, "logprobs": 100, "max_tokens": 40}, 200,
    ),
    "log-probabilities of llama.cpp": (
        "/completion", lambda: {"prompt": "Once", "n": 64, "n_probs": 100, "n_predict": 40}, 200,
    ),
    "log-probabilities, streamed": (
        "/v1/completions",
        lambda: {"model": "m", "prompt": "Once", "n": 64, "logprobs": 100, "max_tokens": 40, "stream": True},
        200,
    ),
    "a million ids to text": ("/detokenize", lambda: {"tokens": [65] * limits.PROMPT_IDS}, 200),
    "too many ids to text": ("/detokenize", lambda: {"tokens": [65] * 3_000_000}, 400),
    "a long text to pieces": (
        "/tokenize", lambda: {"content": " there was" * 40_000, "with_pieces": True}, 200,
    ),
    "too long a text to pieces": (
        "/tokenize", lambda: {"content": "a" * 15_000_000, "with_pieces": True}, 400,
    ),
    "a prompt of a million ids": ("/completion", lambda: {"prompt": [65] * limits.PROMPT_IDS}, 400),
    "biases by text": (
        "/v1/completions",
        lambda: {"model": "m", "prompt": "a", "max_tokens": 1,
                 "logit_bias": {f"cat{k}": 1 for k in range(20_000)}}, 200,
    ),
    "too many biases": (
        "/completion", lambda: {"prompt": "a", "logit_bias": {f"{k} cat": 1 for k in range(10**5)}}, 400,
    ),
    "pairs and pairs": (
        "/completion", lambda: {"prompt": "a", "junk": [[k, [1.5]] for k in range(400_000)]}, 400,
    ),
    "many messages": ("/v1/chat/completions", lambda: {"messages": MESSAGE * 4096, "max_tokens": 1}, 400),
    "more than is read": ("/completion", lambda: {"prompt": "x" * (16 * 2**20)}, 413),
}  # fmt: skip


USUAL = ("log-probabilities, streamed", "a long text to pieces", "more than is read")


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(CASES, USUAL))
@pytest.mark.full
def test_health_answers_meanwhile(serve: Serve, engine: FakeEngine, longest: list[float], name: str) -> None:
    path, make, status = CASES[name]
    engine.script = lambda prompt, branch: STORY
    url, raw = serve().url, json.dumps(make()).encode()
    with watched(url) as waits, httpx.Client(base_url=url, timeout=120) as http:
        answer = http.post(path, content=raw)
        assert answer.status_code == status, answer.text[:300]
    assert max(waits) < MOST_WAIT
    assert longest[0] < MOST_OF_THE_LOOP


@pytest.mark.full
def test_a_long_request_is_followed_from_its_beginning_without_haste(
    serve: Serve, engine: FakeEngine, longest: list[float]
) -> None:
    engine.script = lambda prompt, branch: STORY
    url = serve().url
    with httpx.Client(base_url=url, timeout=120) as http:
        made = http.post(
            "/srb/v1/requests",
            json={"prompt": "Once", "n": 64, "max_tokens": 400, "stop": [], "logprobs": 20},
        ).json()
        engine.generations[-1].wait(120)
        longest[0] = 0.0
        with watched(url) as waits:
            events = http.get(f"/srb/v1/requests/{made['id']}/events").text
            assert http.get(f"/srb/v1/requests/{made['id']}").json()["completion_tokens"] == 64 * 400
            assert http.get("/srb/v1/requests").status_code == 200
    assert events.count('"stream"') == 64 * 400
    assert max(waits) < MOST_WAIT and longest[0] < MOST_OF_THE_LOOP


# ---- large JSON in slices


@settings(deadline=None)
@given(value=JSON, indent=st.sampled_from([None, 1]), plain=st.booleans())
def test_large_json_is_read_as_json_is(value: Any, indent: int | None, plain: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=plain).encode("utf-8", "replace")
    assert work.parse(raw + b" " * work.LARGE) == work._mended(json.loads(raw))


@settings(deadline=None)
@given(st.text('[]{},:"\\u01ae -.', max_size=14))
def test_what_is_no_json_is_refused_in_slices_too(text: str) -> None:
    def read(raw: bytes) -> Any:
        try:
            return work.parse(raw)
        except ApiError as error:
            assert error.status == 400
            return ApiError

    assert read(text.encode() + b" " * work.LARGE) == read(text.encode() or b" ")


@given(value=JSON, many=st.integers(1, 9))
def test_large_json_is_written_as_json_is(value: Any, many: int) -> None:
    with patch.object(work, "_MANY", many), patch.object(work, "_SLICE", many):
        assert work.encode_large(value) == work.encode(value)
        assert work.encode_large(iter([value, value])) == work.encode([value, value])
        assert work.encode_large({"a": iter(())}) == b'{"a":[]}'


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_large_json_may_not_be_deep_either(opening: str) -> None:
    with pytest.raises(ApiError, match="deeply"):
        work.parse((opening * (work.LARGE + 1)).encode())
