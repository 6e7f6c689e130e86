"""Whether anything is left behind by many requests: memory, cells, sequence ids."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from srbwriter.engine import Engine
from srbwriter.engine.types import EngineStats, Request, Stop

from .setting import Setting, resident_bytes, story_ids


@dataclass(frozen=True, slots=True)
class Leak:
    """What ``requests`` requests left behind; ``ended`` and ``reset`` are counters at the end."""

    requests: int
    slope: float  # bytes a request, over the second half
    grown: int  # bytes, over the second half
    live: int  # branches that still ran at the end
    ended: EngineStats
    reset: EngineStats  # after the cache was cleared
    sequences: int  # of the native cache that still held something then


def measure(setting: Setting, requests: int) -> Leak:
    """Requests of different prompts, lengths and numbers of branches; some are cancelled."""
    rng = random.Random(1)
    sizes: list[int] = []
    with Engine.load(setting.model, setting.options()) as engine:
        text = story_ids(engine, setting.prompt)
        for number in range(requests):
            prompt = engine.tokenize(f"{rng.randrange(60)} ") + text[: rng.randrange(8, len(text))]
            stop = Stop(max_tokens=rng.randrange(1, 12))
            sampling = replace(setting.sampling, seed=number)
            generation = engine.submit(Request(prompt, n=rng.randrange(1, 9), sampling=sampling, stop=stop))
            if number % 7 == 0:
                generation.cancel()
            generation.wait()
            sizes.append(resident_bytes())
        engine.flush()
        ended = engine.stats()
        engine.reset()
        after = engine.stats()
        held = int(engine.call(lambda: _held(engine)))
    half = sizes[requests // 2 :]
    slope = float(np.polyfit(np.arange(len(half)), half, 1)[0]) if len(half) > 1 else 0.0
    return Leak(requests, slope, half[-1] - half[0], ended.live_branches, ended, after, held)


def _held(engine: Engine) -> int:
    context = engine._context  # pyright: ignore[reportPrivateUsage]
    return sum(context.last_position(seq) >= 0 for seq in range(context.sequences))
