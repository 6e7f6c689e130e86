"""Who is served when: fair prompt chunks, priorities, queues for cells and branches, cancelling.

Steps and decodes are counted, never seconds: the size of a prompt chunk is set by the test where the
engine would learn it from the clock.
"""

from __future__ import annotations

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    Priority,
    PromptProgress,
)

from .support import CHUNK, ask, decoded_rows, drive, finish, fixture_of, lengths, long_prompt, stepped

engine = fixture_of(stepped, "function")
LONG = 512  # tokens of a long prompt


# ---- prompts beside writing


def test_a_long_prompt_stalls_nobody(engine: Engine) -> None:
    writers = ask(engine, n=4, tokens=None)
    drive(engine, lambda: min(lengths(writers)) >= 2)
    before = lengths(writers)
    prompt = long_prompt(engine, LONG)
    with decoded_rows(engine) as rows:
        reader = ask(engine, prompt, tokens=1)
        steps = drive(engine, lambda: reader.done)
    assert steps >= LONG // CHUNK
    assert lengths(writers) == [count + steps for count in before]  # a token each in every single step
    assert max(rows) <= CHUNK + 4
    progress = [e.done for e in reader.log if isinstance(e, PromptProgress)]
    assert progress == sorted(progress)
    assert len(progress) >= LONG // CHUNK
    assert progress[-1] == LONG


def test_a_short_prompt_does_not_wait_for_a_long_one(engine: Engine) -> None:
    long = ask(engine, long_prompt(engine, LONG), tokens=1)
    drive(engine, lambda: long.prompt_done >= 2 * CHUNK)
    short = ask(engine, "The king", tokens=3)
    assert drive(engine, lambda: short.done) <= 6
    assert long.prompt_done < LONG // 2
    finish(engine, long)


# ---- cancelling


def test_cancel_of_a_prompt_stops_it_after_the_chunk_under_way(engine: Engine) -> None:
    generation = ask(engine, long_prompt(engine, LONG), tokens=4)
    drive(engine, lambda: generation.prompt_done >= 3 * CHUNK)
    generation.cancel()
    with decoded_rows(engine) as rows:
        for _ in range(5):
            engine.process()
    assert rows == []
    assert generation.done
    assert lengths(generation) == [0]
    again = ask(engine, long_prompt(engine, LONG), tokens=1)
    finish(engine, again)
    assert again.cached_tokens >= 3 * CHUNK  # what was read is not read again


# ---- priorities


def test_background_waits_until_nothing_else_is_active(engine: Engine) -> None:
    engine._scheduler.queue.rest_seconds = 0.0
    background = ask(engine, "The king", n=2, tokens=20, priority=Priority.BACKGROUND)
    drive(engine, lambda: min(lengths(background)) >= 3)
    before = lengths(background)
    foreground = ask(engine, n=2, tokens=10)
    drive(engine, lambda: foreground.done)
    assert lengths(background) == before
    finish(engine, background)
    assert lengths(background) == [20, 20]
