"""The engine as a library: words and ids, stepping, asking between steps, the cache, the counters."""

from __future__ import annotations

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    Done,
    EngineClosed,
    Finished,
    InvalidRequest,
    Request,
    Sampling,
    Stop,
)

from .support import (
    PROMPT,
    SHORT,
    WAIT,
    drive,
    finish,
    fixture_of,
    rest,
    seeded,
    small_engine,
    works,
)

engine = fixture_of(small_engine, "function")


# ---- asking


@pytest.mark.parametrize("text", ["", "\0", "a\0b", "\ud800", "\u0301" * 50, "🦊" * 40, "x" * 100_000])
def test_any_text_is_tokenised(engine: Engine, text: str) -> None:
    ids = engine.tokenize(text)
    assert engine.detokenize(ids) == text.encode("utf-8", "replace").decode()


def test_process_says_whether_there_was_anything_to_do(engine: Engine) -> None:
    assert engine.process() is False
    assert not engine.busy
    generation = engine.submit(Request(PROMPT, stop=SHORT))
    assert engine.busy
    assert engine.process() is True
    finish(engine, generation)
    rest(engine)
    assert engine.process() is False
    assert not engine.busy


def test_reset_forgets_everything(engine: Engine) -> None:
    running = engine.submit(Request(PROMPT, stop=Stop(ignore_eog=True)))
    drive(engine, lambda: len(running.branches[0].ids) > 3)
    ids = engine.tokenize(PROMPT, add_bos=True)
    assert engine.resident(ids) == len(ids)
    engine.reset()
    assert engine.resident(ids) == 0
    assert engine.stats().used_cells == engine.stats().used_sequences == 0
    with pytest.raises(EngineClosed, match="reset"):
        running.wait(0)
    assert works(engine)


def test_a_conversation(engine: Engine) -> None:
    messages = [{"role": "user", "content": "Tell me a tale."}]
    prompt = engine.apply_template(messages)
    assert "Tell me a tale." in prompt
    generation = engine.create_chat_completion(messages, n=2, stop=Stop(max_tokens=4))
    finish(engine, generation)
    assert list(generation.prompt_ids) == engine.tokenize(prompt, add_bos=True, parse_special=True)
    assert generation.branches[0].stop_rule.strings == ()  # the model's own template ends with its own token
    with pytest.raises(InvalidRequest):
        engine.create_chat_completion([])
    with pytest.raises(TypeError):
        engine.create_chat_completion(messages, no_such_field=1)


# ---- statistics


def test_statistics_of_one_request(engine: Engine) -> None:
    first = engine.submit(Request(PROMPT, n=3, stop=SHORT, sampling=seeded(1)))
    finish(engine, first)
    stats = engine.stats()
    prompt = len(first.prompt_ids)
    assert (stats.prompt_tokens, stats.reused_tokens, stats.prompt_rows) == (prompt, 0, prompt)
    assert stats.generated_tokens == 12
    done = next(e for e in first.log if isinstance(e, Done))
    assert (done.prompt_tokens, done.cached_tokens, done.completion_tokens) == (prompt, 0, 12)
    second = engine.submit(Request(PROMPT, stop=SHORT))
    finish(engine, second)
    assert engine.stats().reused_tokens == prompt == second.cached_tokens
    assert engine.stats().prompt_seconds > 0


# ---- rules of the end


def test_events_in_their_order_to_the_last(threaded: Engine) -> None:
    generation = threaded.submit(Request(PROMPT, n=2, stop=SHORT))
    events = list(generation.events(timeout=WAIT))
    assert isinstance(events[-1], Done)
    assert sum(isinstance(e, Finished) for e in events) == 2
    assert events == generation.log
    assert list(generation.events(start=len(events))) == []


def test_the_end_of_the_text_is_not_part_of_it(engine: Engine) -> None:
    eos = engine.eos
    assert eos is not None
    sure = Sampling(logit_bias=((eos, 1e6),))
    generation = engine.submit(Request(PROMPT, sampling=sure, stop=Stop(max_tokens=5)))
    late = engine.submit(Request(PROMPT, sampling=sure, stop=Stop(max_tokens=5, min_tokens=3)))
    never = engine.submit(Request(PROMPT, sampling=sure, stop=Stop(max_tokens=5, ignore_eog=True)))
    finish(engine, generation, late, never)
    assert [len(g.branches[0].ids) for g in (generation, late, never)] == [0, 3, 5]
    assert eos not in never.branches[0].ids
    assert generation.branches[0].finish_reason == "eog"
