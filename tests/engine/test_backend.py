"""The in-process engine is a backend: everything a backend offers, in the words it is offered in."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.backend import Backend
from srbwriter.engine.engine import Engine
from srbwriter.engine.types import EngineClosed, EngineOptions, Request, Stop


@pytest.fixture
def backend() -> Iterator[Backend]:
    with Engine.load(bundled_model(), EngineOptions(n_ctx=256, max_branches=2)) as engine:
        yield engine


def test_every_member_is_there(backend: Backend) -> None:
    names = [name for name in vars(Backend) if not name.startswith("_")]
    for name in names:
        offered = getattr(Backend, name)
        found = getattr(backend, name)
        if isinstance(offered, property):
            continue
        _, *parameters = inspect.signature(offered).parameters.values()
        by_name = {p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}
        by_place = [None for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        inspect.signature(found).bind(*by_place, **by_name)


def test_words_and_ids(backend: Backend) -> None:
    ids = backend.tokenize("Once upon a time", parse_special=True)
    assert backend.detokenize(ids) == "Once upon a time"
    assert b"".join(map(backend.token_bytes, ids)).decode() == "Once upon a time"
    assert backend.token("\ufffdno such token\ufffd") is None


def test_a_request_runs_and_is_counted(backend: Backend) -> None:
    prompt = backend.apply_template(({"role": "user", "content": "A tale"},), add_generation_prompt=True)
    generation = backend.submit(Request(prompt=prompt, n=2, stop=Stop(max_tokens=3, ignore_eog=True)))
    assert len(generation.result(timeout=60.0)) == backend.max_branches
    assert backend.stats().generated_tokens == 6


def test_a_closed_one_says_so(backend: Backend) -> None:
    backend.close()
    with pytest.raises(EngineClosed):
        backend.submit(Request(prompt="x"))
