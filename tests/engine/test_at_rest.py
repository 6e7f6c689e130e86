"""What an engine does behind a request: it comes to rest, and what one gives up is no loss for another."""

from __future__ import annotations

from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import NativeError, Priority, Request, Stop

from .support import GREEDY, ask, decoded_rows, drive, finish, lengths, rest
from .test_memories import path_of
from .test_tiers import panes, small, words

STEPS = 500


def comes_to_rest(engine: Engine) -> bool:
    engine._scheduler.queue.rest_seconds = 0.0
    return any(not engine.process() for _ in range(STEPS))


def held(engine: Engine, path: list[int]) -> int:
    return engine.resident(path)


def test_idle_text_that_does_not_fit_host_memory_is_not_copied_for_ever() -> None:
    with small(n_ctx=4096, host_bytes=4_000_000) as engine:
        for number in range(6):
            panes(engine, words(engine, 600, number), 1, 1)
        assert comes_to_rest(engine)
        assert 0 < engine.stats().host_bytes <= 4_000_000


@pytest.mark.parametrize(("host_bytes", "cached"), [(0, True), (None, False)])
def test_background_work_that_does_not_fit_is_not_tried_for_ever(
    host_bytes: int | None, cached: bool
) -> None:
    with small(n_ctx=512, host_bytes=host_bytes) as engine:
        panes(engine, words(engine, 300), 1, 1, cache_prompt=cached)
        early: dict[str, Any] = {
            "add_bos": False, "priority": Priority.BACKGROUND, "cache_prompt": cached, "tokens": 4,
        }  # fmt: skip
        waiting = [ask(engine, words(engine, size, size), **early) for size in (400, 40)]
        with decoded_rows(engine) as rows:
            assert comes_to_rest(engine)
        assert sum(rows) < 450
        assert not waiting[0].done


def fail_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    context, left = engine._context, [1]
    decode = context.decode

    def failing(*args: Any) -> int:
        if left:
            left.pop()
            raise NativeError("llama_decode", -3)
        return decode(*args)

    monkeypatch.setattr(context, "decode", failing)


@pytest.mark.parametrize("verb", ["extend", "reroll"])
def test_a_failure_behind_a_round_breaks_no_verb(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    with small() as engine:
        first = panes(engine, words(engine, 60), 4, 8)
        fail_once(engine, monkeypatch)
        rest(engine)
        other = ask(engine, words(engine, 50, 3), n=12, tokens=30, add_bos=False)
        drive(engine, lambda: min(lengths(other)) > 5)
        getattr(first.branches[1], verb)()
        finish(engine, first, other)
        assert lengths(other) == [30] * 12


def test_a_failed_decode_is_not_aborted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with small() as engine:
        fail_once(engine, monkeypatch)
        with pytest.raises(NativeError):
            panes(engine, words(engine, 60), 1, 4)
        sequences, context = engine.sequences, engine._context
        seq, decode = sequences.new_seq(), context.decode

        def pressed(*args: Any) -> int:
            engine.stand_back()
            return decode(*args)

        monkeypatch.setattr(context, "decode", pressed)
        sequences.eval(seq, words(engine, 60))


def test_requests_of_one_token_are_not_compared_with_idle_text_for_long() -> None:
    with small(n_ctx=8192, max_branches=32) as engine:
        for number in range(12):
            panes(engine, words(engine, 600, number), 1, 1)
        rest(engine)
        for number in range(40):
            panes(engine, words(engine, 40, 100 + number), 1, 1)
        assert engine.stats().used_cells < 2000


# ---- what is killed


def of_two_lengths(engine: Engine) -> Generation:
    """Two branches with the same words, of which one goes on."""
    stops = Stop(max_tokens=4, ignore_eog=True), Stop(max_tokens=12, ignore_eog=True)
    prompt = words(engine, 60)
    written = engine.submit(
        Request(prompt, n=2, sampling=GREEDY, stop=stops, add_bos=False, siblings="independent")
    )
    finish(engine, written)
    return written


@pytest.mark.parametrize("rested", [False, True])
def test_a_killed_branch_takes_no_longer_one_with_its_words(rested: bool) -> None:
    with small() as engine:
        short, long = of_two_lengths(engine).branches
        if rested:
            rest(engine)
        before = held(engine, path_of(long))
        assert before >= len(path_of(long)) - 1
        short.kill()
        engine.process()
        assert held(engine, path_of(long)) == before


@pytest.mark.parametrize("priority", list(Priority))
def test_what_is_killed_before_it_begins_takes_nothing_of_others(priority: Priority) -> None:
    with small(host_bytes=0) as engine:
        pane = path_of(panes(engine, words(engine, 60), 3, 20).branches[1])
        early = ask(engine, pane[:70], n=2, add_bos=False, priority=priority)
        for branch in early.branches:
            branch.kill()
        engine.process()
        assert early.done
        assert held(engine, pane) == len(pane) - 1


def test_what_is_killed_while_it_writes_leaves_nothing_of_what_was_copied_before() -> None:
    with small() as engine:
        prompt = words(engine, 60)
        generation = panes(engine, prompt, 4, 100)
        assert comes_to_rest(engine)
        assert engine.stats().host_bytes > 0
        for branch in generation.branches:
            branch.extend(50)
        drive(engine, lambda: min(lengths(generation)) > 110)
        paths = [path_of(branch) for branch in generation.branches]
        for branch in generation.branches:
            branch.kill()
        finish(engine, generation)
        assert [held(engine, path) for path in paths] == [len(paths[0]) - lengths(generation)[0]] * 4
        assert engine.stats().used_cells <= len(prompt) + 1
