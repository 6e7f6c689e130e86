"""Who is served when: fair prompt chunks, priorities, queues for cells and branches, cancelling.

Steps and decodes are counted, never seconds: the size of a prompt chunk is set by the test where the
engine would learn it from the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.batching import ChunkBudget
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.native.context import ABORTED
from srbwriter.engine.types import (
    BranchState,
    EngineOptions,
    FinishReason,
    LimitExceeded,
    Priority,
    PromptProgress,
    Request,
    Sampling,
    Stop,
)

from .support import GREEDY, PROMPT, WAIT, decoded_rows, drive, finish, seeded

CHUNK = 32
ENDLESS = Stop(ignore_eog=True)


@contextmanager
def loaded(chunk: int = CHUNK, **options: Any) -> Iterator[Engine]:
    """An engine to be stepped, whose prompt chunks have ``chunk`` tokens."""
    chosen = EngineOptions(**{"n_ctx": 2048, "gpu_layers": 0, "seed": 1, "threads": 1, **options})
    with Engine.load(bundled_model(), chosen, thread=False) as engine:
        engine._scheduler.budget.size = lambda writing, abortable: chunk  # type: ignore[method-assign]
        yield engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    with loaded() as engine:
        yield engine


def long_prompt(engine: Engine, tokens: int, salt: str = "") -> list[int]:
    text = salt + PROMPT * (tokens // 8)
    return engine.tokenize(text, add_bos=True)[:tokens]


def ask(engine: Engine, prompt: Any = PROMPT, n: int = 1, tokens: int | None = 8, **more: Any) -> Generation:
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    return engine.submit(Request(prompt, n=n, stop=stop, sampling=seeded(5), **more))


def lengths(generation: Generation) -> list[int]:
    return [len(b.ids) for b in generation.branches]


# ---- prompts beside writing


def test_a_long_prompt_stalls_nobody(engine: Engine) -> None:
    writers = ask(engine, n=4, tokens=None)
    drive(engine, lambda: min(lengths(writers)) >= 2)
    before = lengths(writers)
    prompt = long_prompt(engine, 1000)
    with decoded_rows(engine) as rows:
        reader = ask(engine, prompt, tokens=1)
        steps = drive(engine, lambda: reader.done)
    assert steps >= 1000 // CHUNK
    assert lengths(writers) == [count + steps for count in before]  # a token each in every single step
    assert max(rows) <= CHUNK + 4
    progress = [e.done for e in reader.log if isinstance(e, PromptProgress)]
    assert progress == sorted(progress)
    assert len(progress) >= 1000 // CHUNK
    assert progress[-1] == 1000


def test_two_long_prompts_advance_together(engine: Engine) -> None:
    first = ask(engine, long_prompt(engine, 600, "One. "), tokens=1)
    second = ask(engine, long_prompt(engine, 600, "Two. "), tokens=1)
    for _ in range(10):
        engine.process()
    assert first.prompt_done > 0
    assert abs(first.prompt_done - second.prompt_done) <= CHUNK
    finish(engine, first, second)


def test_a_short_prompt_does_not_wait_for_a_long_one(engine: Engine) -> None:
    long = ask(engine, long_prompt(engine, 1000), tokens=1)
    drive(engine, lambda: long.prompt_done >= 2 * CHUNK)
    short = ask(engine, "The king", tokens=3)
    assert drive(engine, lambda: short.done) <= 6
    assert long.prompt_done < 500
    finish(engine, long)


def test_chunks_are_as_large_as_time_allows() -> None:
    budget = ChunkBudget(seconds=0.05, most=512)
    assert budget.size(writing=True, abortable=True) == 64  # nothing is known yet
    for _ in range(50):
        budget.learn(seconds=0.1, prompt_rows=100, branch_rows=0)  # a millisecond a token
    assert budget.size(writing=True, abortable=True) == pytest.approx(50, abs=2)
    assert budget.size(writing=False, abortable=True) == pytest.approx(400, abs=8)  # can be aborted
    assert budget.size(writing=False, abortable=False) == pytest.approx(50, abs=2)  # cannot
    for _ in range(50):
        budget.learn(seconds=100.0, prompt_rows=100, branch_rows=0)
    assert budget.size(writing=True, abortable=True) == 8
    for _ in range(90):
        budget.learn(seconds=1e-6, prompt_rows=100, branch_rows=0)
    assert budget.size(writing=True, abortable=True) == 512


def test_a_flood_of_other_commands_does_not_stop_a_prompt(engine: Engine) -> None:
    generation = ask(engine, long_prompt(engine, 200), tokens=1)
    other = ask(engine, "The king", tokens=None)
    scheduler = engine._scheduler
    plan = scheduler._plan

    def planned() -> Any:
        made = plan()
        other.branches[0].set_stop(ENDLESS)  # a command arrives in every step, just before its decode
        return made

    scheduler._plan = planned  # type: ignore[method-assign]
    drive(engine, lambda: generation.done, most=40)


# ---- cancelling


def test_cancel_between_steps_costs_no_further_decode(engine: Engine) -> None:
    generation = ask(engine, n=3, tokens=None)
    drive(engine, lambda: min(lengths(generation)) >= 5)
    generation.cancel()
    with decoded_rows(engine) as rows:
        engine.process()
    assert rows == []
    assert generation.done


def test_cancel_of_a_prompt_stops_it_after_the_chunk_under_way(engine: Engine) -> None:
    generation = ask(engine, long_prompt(engine, 1000), tokens=4)
    drive(engine, lambda: generation.prompt_done >= 3 * CHUNK)
    generation.cancel()
    with decoded_rows(engine) as rows:
        for _ in range(5):
            engine.process()
    assert rows == []
    assert generation.done
    assert lengths(generation) == [0]
    again = ask(engine, long_prompt(engine, 1000), tokens=1)
    finish(engine, again)
    assert again.cached_tokens >= 3 * CHUNK  # what was read is not read again


def test_cancel_within_a_decode_aborts_it(engine: Engine) -> None:
    """The one chunk that runs gives up, is not counted, and leaves nothing behind."""
    generation = ask(engine, long_prompt(engine, 1000), n=2, tokens=4)
    drive(engine, lambda: generation.prompt_done >= 3 * CHUNK)
    done = generation.prompt_done
    lib: Any = engine._context._lib
    native = lib.llama_decode
    codes: list[int] = []

    def cancelling(context: int, batch: Any) -> int:
        generation.cancel()  # arrives while llama.cpp is at work
        codes.append(native(context, batch))
        return codes[-1]

    lib.llama_decode = cancelling
    try:
        engine.process()
    finally:
        lib.llama_decode = native
    assert codes == [ABORTED]
    assert generation.prompt_done == done
    engine.process()
    assert generation.done
    assert engine.stats().used_cells == done
    for seq, node in engine._cache.tree.tip.items():
        assert engine._context.last_position(seq) + 1 == node.end


def test_an_aborted_chunk_disturbs_no_writer() -> None:
    def text(disturb: bool) -> tuple[int, ...]:
        with loaded(flash_attn="on") as engine:
            writer = ask(engine, tokens=30)
            drive(engine, lambda: lengths(writer)[0] >= 5)
            reader = ask(engine, long_prompt(engine, 1000), tokens=4)
            drive(engine, lambda: reader.prompt_done > 0)
            if disturb:
                lib: Any = engine._context._lib
                native = lib.llama_decode

                def cancelling(context: int, batch: Any) -> int:
                    reader.cancel()
                    return native(context, batch)

                lib.llama_decode = cancelling
                engine.process()
                lib.llama_decode = native
            finish(engine, writer)
            return writer.branches[0].ids

    assert text(True) == text(False)


def test_other_requests_commands_do_not_abort(engine: Engine) -> None:
    reader = ask(engine, long_prompt(engine, 400), tokens=1)
    writer = ask(engine, "The king", n=2, tokens=None)
    drive(engine, lambda: reader.prompt_done > 0 and min(lengths(writer)) > 0)
    lib: Any = engine._context._lib
    native = lib.llama_decode
    codes: list[int] = []

    def stopping(context: int, batch: Any) -> int:
        writer.branches[0].stop()
        codes.append(native(context, batch))
        return codes[-1]

    lib.llama_decode = stopping
    try:
        engine.process()
    finally:
        lib.llama_decode = native
    assert codes == [0]
    writer.cancel()
    finish(engine, reader)


# ---- priorities


def test_background_waits_until_nothing_else_is_active(engine: Engine) -> None:
    background = ask(engine, "The king", n=2, tokens=20, priority=Priority.BACKGROUND)
    drive(engine, lambda: min(lengths(background)) >= 3)
    before = lengths(background)
    foreground = ask(engine, n=2, tokens=10, priority=Priority.NORMAL)
    drive(engine, lambda: foreground.done)
    assert lengths(background) == before
    finish(engine, background)
    assert lengths(background) == [20, 20]


def test_a_background_prompt_waits_too(engine: Engine) -> None:
    writer = ask(engine, tokens=10)
    engine.process()
    background = ask(engine, long_prompt(engine, 300, "Behind. "), tokens=1, priority=Priority.BACKGROUND)
    drive(engine, lambda: writer.done)
    assert background.prompt_done == background.cached_tokens
    finish(engine, background)


def test_a_foreground_prompt_is_read_before_a_normal_one(engine: Engine) -> None:
    normal = ask(engine, long_prompt(engine, 400, "One. "), tokens=1)
    engine.process()
    read = normal.prompt_done
    foreground = ask(engine, long_prompt(engine, 400, "Two. "), tokens=1, priority=Priority.FOREGROUND)
    drive(engine, lambda: foreground.prompt_done == 400)
    assert normal.prompt_done <= read + CHUNK
    finish(engine, normal, foreground)


def test_a_foreground_request_takes_the_places_of_background_branches() -> None:
    with loaded(max_branches=4) as engine:
        background = ask(engine, "The king", n=4, tokens=30, priority=Priority.BACKGROUND)
        drive(engine, lambda: min(lengths(background)) >= 5)
        foreground = ask(engine, n=3, tokens=5, priority=Priority.FOREGROUND)
        drive(engine, lambda: foreground.done, most=10)
        states = {b.state for b in background.branches}
        assert BranchState.DONE not in states
        with decoded_rows(engine) as rows:
            finish(engine, background)
        assert lengths(background) == [30] * 4
        assert sum(rows) <= 4 * 26  # their cells were kept, so nothing was read again


def test_a_foreground_request_takes_the_cells_of_lesser_ones() -> None:
    with loaded(n_ctx=256) as engine:
        lesser = ask(engine, long_prompt(engine, 180, "A. "), tokens=20, priority=Priority.NORMAL)
        drive(engine, lambda: lengths(lesser)[0] >= 3)
        urgent = ask(engine, long_prompt(engine, 180, "B. "), tokens=10, priority=Priority.FOREGROUND)
        drive(engine, lambda: urgent.done)
        assert not lesser.done
        finish(engine, lesser)
        assert lengths(lesser) == [20]
        assert {b.finish_reason for g in (lesser, urgent) for b in g.branches} == {FinishReason.LENGTH}


def test_equal_priorities_do_not_take_from_each_other() -> None:
    with loaded(max_branches=2) as engine:
        first = ask(engine, "The king", n=2, tokens=20)
        second = ask(engine, n=2, tokens=5)
        drive(engine, lambda: first.done)
        assert lengths(second) == [0, 0]
        finish(engine, second)


# ---- queues


def test_requests_queue_when_cells_run_out_and_all_come_to_their_end() -> None:
    with loaded(n_ctx=256) as engine:
        queue = [ask(engine, long_prompt(engine, 150, f"Tale {k}. "), n=2, tokens=20) for k in range(4)]
        engine.process()
        assert engine.stats().waiting_requests > 0
        finish(engine, *queue)
        assert [lengths(g) for g in queue] == [[20, 20]] * 4
        assert {b.finish_reason for g in queue for b in g.branches} == {FinishReason.LENGTH}
        assert engine.stats().waiting_requests == 0


def test_requests_are_served_in_their_order() -> None:
    with loaded(n_ctx=256) as engine:
        queue = [ask(engine, long_prompt(engine, 200, f"Tale {k}. "), tokens=5) for k in range(4)]
        ended: list[int] = []

        def all_done() -> bool:
            ended.extend(k for k, g in enumerate(queue) if g.done and k not in ended)
            return len(ended) == len(queue)

        drive(engine, all_done)
        assert ended == [0, 1, 2, 3]


@pytest.mark.parametrize("n", [1, 4])
def test_branches_that_fit_only_one_at_a_time_all_finish(n: int) -> None:
    """Each branch fits alone; together they need twice the cells there are."""
    with loaded(n_ctx=256) as engine:
        generation = ask(engine, long_prompt(engine, 100), n=n, tokens=140)
        finish(engine, generation)
        assert lengths(generation) == [140] * n
        assert {b.finish_reason for b in generation.branches} == {FinishReason.LENGTH}


def test_one_that_fits_alone_to_the_last_cell_never_fails() -> None:
    with loaded(n_ctx=256) as engine:
        ask(engine, "The king", n=8, tokens=20, priority=Priority.BACKGROUND)
        prompt = long_prompt(engine, 255, "Full. ")
        generation = ask(engine, prompt, tokens=2)
        finish(engine, generation)
        assert lengths(generation) == [2]  # the 256th token is read, and answered; no room for more
        assert generation.branches[0].finish_reason in (FinishReason.LENGTH, FinishReason.CONTEXT)


def test_a_text_that_fills_the_window_ends_in_words() -> None:
    with loaded(n_ctx=256) as engine:
        generation = ask(engine, long_prompt(engine, 200), tokens=None)
        finish(engine, generation)
        assert generation.branches[0].finish_reason is FinishReason.CONTEXT
        assert lengths(generation) == [256 - 200 + 1]


def test_sequences_run_out_before_cells_do() -> None:
    with loaded(max_branches=4, max_sequences=4) as engine:
        requests = [ask(engine, f"Tale {k}: once", n=3, tokens=6) for k in range(5)]
        finish(engine, *requests)
        assert [lengths(g) for g in requests] == [[6] * 3] * 5
        assert engine.stats().used_sequences <= 4


# ---- how many


def test_sixty_four_branches_live_at_once(engine: Engine) -> None:
    assert engine.max_branches == 64
    generation = ask(engine, n=64, tokens=6)
    with decoded_rows(engine) as rows:
        drive(engine, lambda: min(lengths(generation)) >= 3)
        assert engine.stats().live_branches == 64
        finish(engine, generation)
    assert lengths(generation) == [6] * 64
    assert max(rows[1:]) <= 64
    assert len({b.ids for b in generation.branches}) > 32
    with pytest.raises(LimitExceeded) as caught:
        ask(engine, n=65)
    assert (caught.value.n, caught.value.limit) == (65, 64)


def test_sixty_four_branches_of_many_requests_and_the_next_waits(engine: Engine) -> None:
    requests = [ask(engine, f"Tale {k}:", n=8, tokens=12) for k in range(9)]
    drive(engine, lambda: engine.stats().live_branches == 64)
    assert lengths(requests[8]) == [0] * 8
    finish(engine, *requests)
    assert [lengths(g) for g in requests] == [[12] * 8] * 9


def test_n_shrinks_and_grows_while_running(engine: Engine) -> None:
    generation = ask(engine, n=6, tokens=None)
    seen: list[int] = []
    drive(engine, lambda: min(lengths(generation)) >= 12)
    with decoded_rows(engine) as rows:
        for change in (
            lambda: [b.stop() for b in generation.branches[:4]],
            lambda: generation.add_branch(5),
            lambda: generation.branches[5].kill(),
        ):
            change()
            engine.process()
            seen.append(engine.stats().live_branches)
    assert seen == [2, 7, 6]
    assert rows[0] == 2
    assert rows[2] <= 6
    generation.cancel()
    finish(engine, generation)


def test_one_decode_a_step_serves_all_requests(engine: Engine) -> None:
    requests = [ask(engine, f"Tale {k}:", n=3, tokens=10) for k in range(4)]
    with decoded_rows(engine) as rows:
        steps = 0
        while not all(g.done for g in requests):
            engine.process()
            steps += 1
    assert len(rows) <= steps <= 25  # 12 branches of 10 tokens each, and their prompts


def test_identical_branches_share_a_row_until_they_diverge(engine: Engine) -> None:
    parted = 6

    def callback(logits: Any, view: Any) -> None:
        token = 300 + len(view.ids) if len(view.ids) < parted else 400 + view.index
        logits[:] = -1e9
        logits[token] = 0.0

    stop = Stop(max_tokens=10, ignore_eog=True)
    with decoded_rows(engine) as rows:
        generation = engine.submit(
            Request(PROMPT, n=8, sampling=GREEDY, stop=stop, logits_callback=callback)
        )
        finish(engine, generation)
    assert sum(rows) == len(generation.prompt_ids) + parted + 3 * 8
    assert len({b.ids for b in generation.branches}) == 8


def test_branches_under_one_engine_thread_run_to_their_end() -> None:
    """The same with the engine's own thread: nothing depends on who steps."""
    options = EngineOptions(n_ctx=512, gpu_layers=0, seed=1, threads=1, max_branches=8)
    with Engine.load(bundled_model(), options) as engine:
        requests = [
            engine.submit(
                Request(
                    f"Tale {k}: once", n=4, stop=Stop(max_tokens=8, ignore_eog=True),
                    sampling=Sampling(seed=k), priority=list(Priority)[k % 3],
                )
            )
            for k in range(9)
        ]
        for request in requests:
            request.wait(WAIT)
            assert lengths(request) == [8] * 4
