"""What docs/determinism.md says is identical, is; a strict text depends on nothing but its request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import (
    EngineOptions,
    FinishReason,
    InvalidRequest,
    Priority,
    PromptProgress,
    Request,
    Stop,
)
from tests.sizes import examples, some_of

from .guards import run_child
from .support import PROMPT, ask, decoded_rows, drive, finish, forcing, long_prompt, seeded, toy_model
from .toy_models import make_gemma, make_jamba, make_mamba

OPTIONS = EngineOptions(n_ctx=1024, gpu_layers=0, seed=1, threads=1, max_branches=8)
"""Weights of eight bits, no flash attention: of all settings the most sensitive one."""
HOT = seeded(5, temperature=1.3, top_k=0, top_p=1.0, min_p=0.0)
TOKENS = 48
STORY = PROMPT * 8


def load(options: EngineOptions = OPTIONS, make: Callable[[Path], Path] | None = None) -> Engine:
    engine = Engine.load(bundled_model() if make is None else toy_model(make), options, thread=False)
    engine._scheduler.budget.size = lambda writing, abortable: 48  # type: ignore[method-assign]
    engine._scheduler.queue.second_thoughts = 0.0
    return engine


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with load() as loaded:
        yield loaded


def submit(engine: Engine, n: int = 1, tokens: int = TOKENS, prompt: Any = STORY, **more: Any) -> Generation:
    fields = {"strict": True, "sampling": HOT, "stop": Stop(max_tokens=tokens, ignore_eog=True), **more}
    return engine.submit(Request(prompt, n=n, **fields))


def strict(engine: Engine, n: int = 1, **more: Any) -> list[tuple[int, ...]]:
    generation = submit(engine, n, **more)
    finish(engine, generation)
    return [b.ids for b in generation.branches]


@pytest.fixture(scope="module")
def alone() -> list[tuple[int, ...]]:
    """What four strict branches write in an engine that does nothing else."""
    with load() as fresh:
        return strict(fresh, 4)


# ---- strict


@pytest.mark.parametrize("n", [1, 2, 8])
def test_a_strict_branch_is_the_same_whatever_n_is(engine: Engine, alone: list[Any], n: int) -> None:
    assert strict(engine, n)[:4] == alone[:n]


@pytest.mark.parametrize("priority", some_of(Priority, [Priority.FOREGROUND]))
def test_others_change_nothing(engine: Engine, alone: list[Any], priority: Priority) -> None:
    before = ask(engine, "The king", n=5, tokens=60)
    drive(engine, lambda: len(before.branches[0].ids) > 3)
    generation = submit(engine, 4, priority=priority)
    drive(engine, lambda: generation.branches[0].ids or before.done)
    later = ask(engine, long_prompt(engine, 200), n=2, tokens=20)
    other = submit(engine, 2, prompt="Another story", sampling=seeded(9))
    finish(engine, before, generation, later, other)
    assert [b.ids for b in generation.branches] == alone


@pytest.mark.full
def test_what_was_cached_changes_nothing(engine: Engine, alone: list[Any]) -> None:
    """Ordinary requests of the same prompt, of its beginning, and a scattered cache."""
    engine.reset()
    for prompt in (STORY, PROMPT * 5, STORY + " And"):
        finish(engine, ask(engine, prompt, n=4, tokens=20))
        while engine._cache.evict() and engine.stats().used_cells > 100:
            pass
        assert strict(engine, 4) == alone
    assert engine.stats().evaluated_again["strict"] > 100


@pytest.mark.parametrize("shared", [3, 64, 65, 100, 128])
@pytest.mark.full
def test_what_strict_requests_read_is_used_where_it_is_the_same(engine: Engine, shared: int) -> None:
    ids = engine.tokenize(STORY)[:150]
    engine.reset()
    fresh = strict(engine, 2, prompt=ids)
    strict(engine, 1, prompt=[*ids[:shared], *range(300, 340)], tokens=30)
    before = engine.stats().prompt_rows
    assert strict(engine, 2, prompt=ids) == fresh
    read = engine.stats().prompt_rows - before
    assert read == len(ids) + 1 - (shared + 1) // 64 * 64  # one token begins the text


def test_the_prompt_is_read_once_for_all_branches(engine: Engine) -> None:
    engine.reset()
    generation = submit(engine, 4, tokens=10)
    with decoded_rows(engine) as rows:
        finish(engine, generation)
    prompt = len(generation.prompt_ids)
    assert sum(rows) == prompt + 4 * 9
    assert set(rows) == {64, prompt % 64, 1}
    told = [e.done for e in generation.log if isinstance(e, PromptProgress)]
    assert told == [0, *range(64, prompt, 64), prompt]
    assert generation.cached_tokens == 0


@pytest.mark.parametrize(
    "verbs", [["pause"], ["stop", "extend"], ["rewind"], ["pause", "other", "stop", "extend"]]
)
def test_a_rest_changes_nothing(engine: Engine, alone: list[Any], verbs: list[str]) -> None:
    generation = submit(engine, 2)
    branch = generation.branches[0]
    for place, verb in enumerate(verbs):
        drive(engine, lambda wanted=5 + 6 * place: len(branch.ids) >= wanted or not branch.live)
        if verb == "pause":
            branch.pause()
            engine.process()
            ask(engine, "The king", tokens=3)
            engine.process()
            branch.resume()
        elif verb == "other":
            strict(engine, 1, prompt="Somebody else's", tokens=4, priority=Priority.FOREGROUND)
        elif verb == "extend":
            branch.extend(Stop(max_tokens=TOKENS, ignore_eog=True))
        elif verb == "stop":
            branch.stop()
        else:
            branch.rewind(tokens=3, seed=branch.seed)
    finish(engine, generation)
    if verbs != ["rewind"]:  # which draws other tokens from there on
        assert branch.ids == alone[0]
    else:
        assert branch.ids[:2] == alone[0][:2] and len(branch.ids) == TOKENS
    assert generation.branches[1].ids == alone[1]


def test_typing_into_a_strict_branch_gives_what_typing_gives(engine: Engine) -> None:
    texts: list[str] = []
    for busy in (False, True):
        engine.reset()
        if busy:
            others = ask(engine, "The king", n=3, tokens=100)
        generation = submit(engine, 1)
        (branch,) = generation.branches
        finish(engine, generation)
        branch.append(" But the door was locked.", go_on=True)
        finish(engine, generation)
        texts.append(branch.text)
        assert len(branch.ids) > TOKENS + 20
    others.cancel()
    finish(engine, others)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("keep", some_of([0, 16, -1], [16]))
@pytest.mark.full
def test_it_slides_on_as_others_do(engine: Engine, keep: int) -> None:
    more: dict[str, Any] = {"overflow": "shift", "n_keep": keep, "prompt": engine.tokenize(STORY * 8)[:1000]}
    fresh = strict(engine, 1, tokens=60, **more)
    assert strict(engine, 2, tokens=60, **more)[:1] == fresh
    assert len(fresh[0]) == 60


def test_where_the_window_ends_the_text_ends(engine: Engine) -> None:
    generation = submit(engine, 1, prompt=engine.tokenize(STORY * 8)[:1000], tokens=100)
    finish(engine, generation)
    assert generation.branches[0].finish_reason is FinishReason.CONTEXT
    assert len(generation.branches[0].ids) == 1024 - 1000 - 1 + 1


def test_no_token_is_asked_for(engine: Engine) -> None:
    assert strict(engine, 2, tokens=0) == [(), ()]
    assert strict(engine, 2, tokens=0) == [(), ()]


@pytest.mark.parametrize("fields", [{"regex": "( [a-z]+)+"}, {"repeat_penalty": 1.3}, {"mirostat": 2}])
@pytest.mark.full
def test_whatever_it_samples_by(engine: Engine, fields: dict[str, Any]) -> None:
    sampling = replace(HOT, **fields)
    first = strict(engine, 3, sampling=sampling)
    others = ask(engine, "The king", n=3, tokens=30)
    assert strict(engine, 2, sampling=sampling, logprobs=1) == first[:2]
    finish(engine, others)


def test_a_word_is_completed(engine: Engine) -> None:
    generation = submit(engine, 2, prompt=STORY + " He saw a fo", heal=True)
    finish(engine, generation)
    assert generation.healed
    assert strict(engine, 1, prompt=STORY + " He saw a fo", heal=True) == [generation.branches[0].ids]


@pytest.mark.parametrize("make", [make_gemma, make_jamba, make_mamba])
def test_every_kind_of_memory(make: Callable[[Path], Path]) -> None:
    more: dict[str, Any] = {"prompt": STORY[:150], "tokens": 20}
    with load(make=make) as fresh:
        first = strict(fresh, 3, **more)
    with load(make=make) as engine:
        finish(engine, ask(engine, STORY[:150], n=3, tokens=5))
        others = ask(engine, "The king", n=3, tokens=60)
        assert strict(engine, 1, **more) == first[:1]
        assert strict(engine, 3, **more) == first
        finish(engine, others)


@pytest.mark.full
def test_more_threads_are_as_reliable() -> None:
    done = run_child("""
        from dataclasses import replace
        from tests.engine.support import ask, finish
        from tests.engine.test_determinism import OPTIONS, STORY, load, strict
        texts = []
        for _ in range(2):
            with load(replace(OPTIONS, threads=2)) as engine:
                texts.append(strict(engine, 2, prompt=STORY * 4))
                others = ask(engine, "The king", n=5, tokens=80)
                texts.append(strict(engine, 2, prompt=STORY * 4))
                others.cancel()
                finish(engine, others)
        assert texts[1:] == texts[:1] * 3
    """)
    assert done.returncode == 0, done.stderr


def test_an_engine_can_be_strict_with_everybody(alone: list[Any]) -> None:
    with load(replace(OPTIONS, strict=True)) as engine:
        others = ask(engine, "The king", n=3, tokens=10)
        assert strict(engine, 2, strict=False) == alone[:2]
        finish(engine, others)
        assert engine.stats().used_cells == 0


def test_probabilities_of_a_prompt_are_refused_in_words(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="strict"):
        submit(engine, prompt_logprobs=1)


@pytest.mark.full
def test_it_can_be_cancelled_killed_and_reset(engine: Engine, alone: list[Any]) -> None:
    generation = submit(engine, 4)
    drive(engine, lambda: len(generation.branches[0].ids) > 3)
    generation.branches[0].kill()
    drive(engine, lambda: len(generation.branches[1].ids) > 3)
    generation.cancel()
    finish(engine, generation)
    reset = submit(engine, 2)
    drive(engine, lambda: len(reset.branches[0].ids) > 3)
    engine.reset()
    assert reset.done
    assert strict(engine, 4) == alone


@given(st.lists(st.tuples(st.sampled_from(["strict", "plain", "evict", "step", "cancel"]), st.integers(0, 3)),
                max_size=12))  # fmt: skip
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_happens_around_it(engine: Engine, alone: list[Any], around: list[tuple[str, int]]) -> None:
    generation, others = submit(engine, 2, tokens=16), list[Generation]()
    for what, k in around:
        match what:
            case "strict":
                others.append(submit(engine, 1 + k, prompt=PROMPT * (1 + k), tokens=6))
            case "plain":
                others.append(ask(engine, PROMPT * (1 + k), n=1 + k, tokens=9))
            case "evict":
                engine.call(engine._cache.evict)
            case "cancel":
                for other in others:
                    other.cancel()
            case _:
                for _ in range(3 * k):
                    engine.process()
    finish(engine, generation, *others)
    assert [b.ids for b in generation.branches] == [ids[:16] for ids in alone[:2]]


# ---- what the page says of the others


def row_of(engine: Engine, n: int, script: list[int]) -> list[np.ndarray]:
    """Logits that branch 0 of ``n`` saw while it wrote ``script``, from an empty cache."""
    engine.reset()
    seen: dict[int, list[np.ndarray]] = {}
    scripts = [script, *([(t * 7 + k) % 4000 for t in script] for k in range(1, n))]
    stop = Stop(max_tokens=len(script), ignore_eog=True)
    generation = engine.submit(Request(STORY, n=n, stop=stop, logits_callback=forcing(scripts, seen)))
    finish(engine, generation)
    return seen[0]


SCRIPT = [310, 420, 530, 640, 750, 860, 970, 1080]


def test_the_same_on_an_empty_engine_is_the_same() -> None:
    found = []
    for _ in range(2):
        with load() as engine:
            both = [ask(engine, STORY, n=4, tokens=30), ask(engine, PROMPT, n=2, tokens=30)]
            finish(engine, *both)
            found.append([b.ids for g in both for b in g.branches])
    assert found[0] == found[1]


def test_with_flash_attention_and_one_thread_the_number_of_branches_does_not_matter() -> None:
    with load(replace(OPTIONS, flash_attn="on")) as engine:
        one = row_of(engine, 1, SCRIPT)
        for n in (2, 3, 8):
            for a, b in zip(one, row_of(engine, n, SCRIPT), strict=True):
                assert np.array_equal(a, b)


def test_equal_logits_and_seeds_give_equal_tokens(engine: Engine) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(0, 2, (20, engine.info.n_vocab)).astype(np.float32)
    written: list[tuple[int, ...]] = []
    for n in (1, 3):
        engine.reset()

        def told(logits: Any, view: Any) -> None:
            logits[:] = rows[len(view.ids)]

        generation = engine.submit(
            Request("", n=n, sampling=HOT, stop=Stop(max_tokens=20, ignore_eog=True), logits_callback=told)
        )
        finish(engine, generation)
        written.append(generation.branches[0].ids)
    assert written[0] == written[1]
