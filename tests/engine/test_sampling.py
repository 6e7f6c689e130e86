"""Chains choose as the parameters say, each from its own history and seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from srbwriter.engine.engine import Engine
from srbwriter.engine.model import Model
from srbwriter.engine.native.library import library
from srbwriter.engine.sampling import PREFILTER, Chain, SamplerTemplate
from srbwriter.engine.types import InvalidRequest, Sampling

from .support import PROMPT, Reference

Row = NDArray[np.float32]
Draw = Callable[..., list[int]]

OPEN: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}  # nothing truncates


@dataclass(frozen=True)
class Wide:
    """A vocabulary too large to sort; what needs a real vocabulary is not asked of it."""

    n_vocab: int = 8 * PREFILTER
    vocab: int = 0
    eog: frozenset[int] = frozenset({0})
    suppress: tuple[int, ...] = ()
    special_pieces: Sequence[bytes] = ()


@pytest.fixture(scope="module")
def model(engine: Engine) -> Model:
    return engine.model


@pytest.fixture
def row(model: Model) -> Row:
    return normal_row(model.n_vocab, 0)


@pytest.fixture
def draw(model: Model) -> Iterator[Draw]:
    """Picks many tokens from one row, without accepting them."""
    templates: list[SamplerTemplate] = []

    def pick(row: Row, sampling: Sampling, times: int = 200, seed: int = 1) -> list[int]:
        templates.append(SamplerTemplate(sampling, model))
        return picks(templates[-1].new(seed), row, times)

    yield pick
    for template in templates:
        template.close()


def normal_row(n_vocab: int, seed: int, spread: float = 3.0) -> Row:
    return np.random.default_rng(seed).normal(0.0, spread, n_vocab).astype(np.float32)


def picks(chain: Chain, row: Row, times: int) -> list[int]:
    found = [chain.pick(row) for _ in range(times)]
    chain.close()
    return found


def probabilities(row: Row) -> NDArray[np.float64]:
    weights = np.exp(row.astype(np.float64) - row.max())
    return weights / weights.sum()


# ---- what is chosen


@given(st.integers(0, 2**32), st.floats(0.1, 20.0))
@settings(max_examples=6, deadline=None)
def test_greedy_and_top_1_are_the_likeliest(engine: Engine, seed: int, spread: float) -> None:
    row = normal_row(engine.model.n_vocab, seed, spread)
    for sampling in (Sampling(temperature=0.0), Sampling(top_k=1), Sampling(temperature=1e-9, top_p=0.1)):
        assert picks(SamplerTemplate(sampling, engine.model).new(seed), row, 3) == [int(row.argmax())] * 3


@pytest.mark.parametrize("min_p", [0.02, 0.3])
def test_min_p_cuts_below_its_share_of_the_likeliest(row: Row, draw: Draw, min_p: float) -> None:
    p = probabilities(row)
    allowed = set(np.flatnonzero(p >= min_p * p.max()))
    found = set(draw(row, Sampling(**OPEN | {"min_p": min_p}), 600))
    assert found <= allowed
    assert len(found) > len(allowed) // 2


@pytest.mark.parametrize("top_p", [0.2, 0.7])
def test_top_p_keeps_the_smallest_set_of_that_mass(row: Row, draw: Draw, top_p: float) -> None:
    p = probabilities(row)
    order = np.argsort(-p)
    size = int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1
    found = draw(row, Sampling(**OPEN | {"top_p": top_p}), 600)
    assert set(found) <= set(order[:size])
    assert len(set(found)) > 1


def test_bias_forbids_and_compels(row: Row, draw: Draw) -> None:
    best = np.argsort(-row)[:50]
    forbid = tuple((int(token), -np.inf) for token in best)
    for sampling in (Sampling(logit_bias=forbid), Sampling(logit_bias=forbid, temperature=0.0)):
        assert not set(draw(row, sampling)) & set(best)
    assert set(draw(row, Sampling(logit_bias=((17, 100.0),)))) == {17}


def test_suppressed_tokens_are_never_chosen(row: Row) -> None:
    best = int(row.argmax())
    narrow = Wide(n_vocab=len(row), suppress=(best,))
    assert best not in picks(SamplerTemplate(Sampling(), narrow).new(1), row, 100)


def test_xtc_drops_all_likely_tokens_but_the_last(draw: Draw, model: Model) -> None:
    row = np.full(model.n_vocab, -20.0, np.float32)
    row[[5, 6, 7, 8]] = (3.0, 2.0, 1.5, -1.0)
    sampling = Sampling(**OPEN | {"xtc_probability": 1.0, "xtc_threshold": 0.1, "top_k": 4})
    assert set(draw(row, sampling)) == {7, 8}


def test_temperature_spreads(row: Row, draw: Draw) -> None:
    spread = [len(set(draw(row, Sampling(**OPEN | {"temperature": t})))) for t in (0.2, 1.0, 3.0)]
    assert spread == sorted(spread)
    assert spread[0] < spread[2]
    varying = Sampling(**OPEN | {"temperature": 0.5, "dynatemp_range": 0.5})
    assert len(set(draw(row, varying))) > 1


def test_an_order_is_taken_literally(row: Row, draw: Draw) -> None:
    unordered = draw(row, Sampling(samplers=("no such sampler",), top_k=1, seed=3))
    assert unordered == draw(row, Sampling(**OPEN))
    assert set(draw(row, Sampling(samplers=("temp", "top_k"), top_k=1))) == {int(row.argmax())}


# ---- seeds


@pytest.mark.parametrize(
    "sampling",
    [Sampling(**OPEN), Sampling(mirostat=2), Sampling(adaptive_target=0.4), Sampling(xtc_probability=0.5)],
)
def test_equal_seeds_repeat_and_others_do_not(model: Model, row: Row, sampling: Sampling) -> None:
    template = SamplerTemplate(sampling, model)
    first, again, other = (picks(template.new(seed), row, 60) for seed in (11, 11, 12))
    assert first == again
    assert first != other


# ---- history


def likeliest(chain: Chain, row: Row) -> int:
    return chain.pick(row)


def test_branches_remember_only_what_they_wrote(model: Model, row: Row) -> None:
    best, second = (int(token) for token in np.argsort(-row)[:2])
    template = SamplerTemplate(Sampling(temperature=0.0, presence_penalty=50.0), model)
    one, two = template.new(1), template.new(1)
    one.accept(best)
    assert (likeliest(one, row), likeliest(two, row)) == (second, best)
    three = template.new(1, [best])
    assert likeliest(three, row) == second
    template.close()
    assert (likeliest(one, row), likeliest(two, row)) == (second, best)


def test_penalties_forget_beyond_their_window(model: Model, row: Row) -> None:
    best = int(row.argmax())
    template = SamplerTemplate(Sampling(temperature=0.0, presence_penalty=50.0, repeat_last_n=2), model)
    assert likeliest(template.new(1, [best, 1]), row) != best
    assert likeliest(template.new(1, [best, 1, 2]), row) == best


def test_dry_keeps_a_phrase_from_going_on(model: Model, row: Row) -> None:
    best = int(row.argmax())
    phrase = [token for token in range(300, 304) if token != best]
    repeating = [*phrase, best, 400, 401, *phrase]
    for multiplier, chosen in ((0.0, True), (9.0, False)):
        template = SamplerTemplate(Sampling(temperature=0.0, dry_multiplier=multiplier), model)
        template.prime(repeating)
        assert (likeliest(template.new(1), row) == best) is chosen


# ---- rows and handles


def test_llama_cpps_own_sampling_chooses_the_same(engine: Engine) -> None:
    reference = Reference(engine)
    ids = engine.model.tokenize(PROMPT, add_bos=True)
    row = reference.logits(ids)[0].copy()
    sample = library().llama_sampler_sample
    for sampling in (Sampling(), Sampling(**OPEN), Sampling(mirostat=2), Sampling(repeat_penalty=1.3)):
        template = SamplerTemplate(sampling, engine.model)
        template.prime(ids)
        native_chain, ours = template.new(9), template.new(9)
        for _ in range(20):
            token = ours.pick(row)
            ours.accept(token)
            assert sample(native_chain.pointer, reference.context.pointer, -1) == token


def test_forbidding_everything_is_refused(model: Model) -> None:
    everything = tuple((token, -np.inf) for token in range(model.n_vocab))
    with pytest.raises(InvalidRequest, match="no token is left"):
        SamplerTemplate(Sampling(logit_bias=everything), model)


def test_infill_is_refused_where_it_would_end_the_process(model: Model) -> None:
    long = Wide(vocab=model.vocab, special_pieces=(b"x" * 600,))
    with pytest.raises(InvalidRequest, match="more than 512 bytes"):
        SamplerTemplate(Sampling(infill=True), long)
