"""Vectors of texts: what they are equal to, what is refused, and that nobody waits for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from srbwriter.engine import limits
from srbwriter.engine.embedding import normalized
from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    ContextOverflow,
    EngineOptions,
    InvalidRequest,
    NotANumber,
)

from .support import PROMPT, exact_model, fixture_of, toy_model
from .toy_models import make_gemma, make_jamba, make_mamba, make_without_numbers

EXACT = EngineOptions(
    n_ctx=2048, gpu_layers=0, seed=1, threads=1, cache_type_k="f32", cache_type_v="f32", max_branches=8
)
TEXTS = ["The fox ran home.", "Snow fell all night on the old mill.", PROMPT * 40, "A"]


def loaded(path: Path) -> Engine:
    return Engine.load(path, EXACT, thread=False)


exact = fixture_of(lambda: loaded(exact_model()))


@pytest.mark.parametrize("make", [make_gemma, make_jamba, make_mamba])
def test_every_kind_of_memory_gives_vectors(make: Callable[[Path], Path]) -> None:
    """A vector is that of the last token, or the mean of all; each depends on what came before alone."""
    with loaded(toy_model(make)) as engine:
        ids = engine.tokenize(TEXTS[1][:30], add_bos=True)
        rows = [engine.embed([ids[:end]], "last", -1)[0].values for end in range(1, len(ids) + 1)]
        for way, expected in (("mean", np.mean(rows, axis=0)), ("cls", rows[0]), ("last", rows[-1])):
            [found] = engine.embed([ids], way)
            assert found.tokens == len(ids)
            np.testing.assert_allclose(found.values, normalized(expected, 2), atol=1e-4)


def test_a_text_longer_than_the_context_is_refused_in_words(exact: Engine) -> None:
    with pytest.raises(ContextOverflow, match="2048 tokens"):
        exact.embed(["short", "word " * 3000])


@pytest.mark.parametrize(
    ("texts", "settings", "words"),
    [
        ([], {}, "are possible"),
        ([[]], {}, "empty"),
        ([[10**9]], {}, "token id"),
        (["a"], {"pooling": "none"}, "not one of"),
        (["a"], {"normalize": 1000}, "not in"),
        (["a"] * (limits.TEXTS + 1), {}, "are possible"),
        (["a" * (limits.PROMPT_CHARS // 2 + 1)] * 2, {}, "characters"),
    ],
)
def test_what_means_nothing_is_refused(exact: Engine, texts: list[str], settings: dict, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        exact.embed(texts, **settings)


def test_a_damaged_model_gives_no_vector() -> None:
    with loaded(toy_model(make_without_numbers)) as engine, pytest.raises(NotANumber):
        engine.embed(["the fox"])
