"""What one key had evaluated is nothing to another: over a real socket, with a real engine.

What tells is how many tokens were in the cache, in the words of each dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from srbwriter.engine import EngineOptions
from srbwriter.server import Loaded, ServerSettings, start_in_thread
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .lines import LineClient
from .wire import frames

KEYS = ("a-secret anna", "b-secret ben")
ANNA, BEN = ({"Authorization": f"Bearer {key.split()[0]}"} for key in KEYS)
STORY = "The lighthouse keeper found a letter in the sand, and he hid it from all of us. "
SYSTEM = "You are a patient writer who never hurries, and every sentence that you write is short and plain. "
TALK = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": STORY}]

Serving = Callable[..., httpx.Client]


@pytest.fixture
def serving() -> Iterator[Serving]:
    with ExitStack() as closing:
        options = EngineOptions(n_ctx=1024, gpu_layers=0, threads=1, seed=1, max_branches=8)
        engine = closing.enter_context(load_engine(short_model(), options))

        def start(**settings: Any) -> httpx.Client:
            given = {"port": 0, "access_log": False, "api_keys": KEYS, **settings}
            handle = start_in_thread(Loaded(engine), ServerSettings(**given))
            closing.callback(handle.stop, 20)
            for address in handle.lines:
                with LineClient(address, greet=False) as client:
                    client.ask("AUTH a-secret")  # answered once what lines begin with is evaluated
            return closing.enter_context(httpx.Client(base_url=handle.url, timeout=60))

        yield start


def native(http: httpx.Client, key: Any, prompt: str = STORY, **more: Any) -> int:
    """Cached tokens as llama-server tells them."""
    body = {"prompt": prompt, "n_predict": 2, "temperature": 0, **more}
    answer = http.post("/completion", json=body, headers=key).raise_for_status().json()
    return answer["timings"]["cache_n"]


def openai(http: httpx.Client, key: Any, **more: Any) -> int:
    body = {"model": "m", "prompt": STORY, "max_tokens": 2, "temperature": 0, **more}
    answer = http.post("/v1/completions", json=body, headers=key).raise_for_status().json()
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def chat(http: httpx.Client, key: Any, messages: Any = TALK, **more: Any) -> int:
    body = {"messages": messages, "max_tokens": 2, "temperature": 0, **more}
    answer = http.post("/v1/chat/completions", json=body, headers=key).raise_for_status().json()
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def srb(http: httpx.Client, key: Any, **more: Any) -> int:
    body = {"prompt": STORY, "max_tokens": 2, "n": 1, "rich": True, **more}
    answer = http.post("/srb/v1/completions", json=body, headers=key).raise_for_status()
    return frames(answer.content)[-1]["cached_tokens"]


def test_a_key_finds_its_own_text_and_no_others(serving: Serving) -> None:
    """In each dialect, and a salt separates what one key has."""
    http = serving()
    for number, cached in enumerate((native, openai, srb, chat)):
        prompt = f"In the year {number} it began. {STORY}"
        reply: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]} if cached is chat else {}
        reply = reply or {"prompt": prompt}
        first = cached(http, ANNA, **reply)
        assert cached(http, BEN, **reply) == first
        assert cached(http, ANNA, **reply) > first + 10 and cached(http, BEN, **reply) > first + 10
        for salt in ("x", "y"):
            assert cached(http, ANNA, cache_salt=salt, **reply) == first, cached
        assert cached(http, ANNA, cache_salt="x", **reply) > first + 10
        for salt in ("x", "anna\0x"):
            assert cached(http, BEN, cache_salt=salt, **reply) == first, "no way to another key's text"


@pytest.mark.parametrize(
    "settings", [{"share_cache": True}, {"api_keys": KEYS[:1]}, {"api_keys": ()}], ids=str
)
def test_one_namespace_for_all(serving: Serving, settings: dict[str, Any]) -> None:
    http = serving(**settings)
    second = BEN if settings.get("share_cache") else ANNA
    assert native(http, ANNA) == 0
    assert native(http, second) > 10
    if settings.get("share_cache"):  # where a salt joins keys
        assert native(http, ANNA, cache_salt="x") == 0
        assert native(http, BEN, cache_salt="x") > 10
        answer = http.post("/completion", json={"prompt": STORY, "cache_salt": 7}, headers=ANNA)
        assert answer.status_code == 400 and "cache_salt" in answer.text
