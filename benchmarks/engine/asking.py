"""Asking the engine as a writer's face does, and watching what comes."""

from __future__ import annotations

import time
from dataclasses import replace

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Priority, Request, Stop, Text

from .setting import Setting


class FirstText:
    """When every branch of a generation had text (``at``, by ``time.perf_counter``)."""

    def __init__(self, generation: Generation, n: int) -> None:
        self.at = 0.0
        self._generation, self._seen, self._silent = generation, 0, set(range(n))
        generation.add_listener(self._look)
        self._look()

    def _look(self) -> None:
        if self.at:
            return
        log = self._generation.log
        for event in log[self._seen :]:
            if isinstance(event, Text) and event.text:
                self._silent.discard(event.branch)
        self._seen = len(log)
        if not self._silent:
            self.at = time.perf_counter()


def ask(engine: Engine, setting: Setting, prompt: list[int], n: int, tokens: int, seed: int) -> Generation:
    """The request that both sides are given, as a writer's."""
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    sampling = replace(setting.sampling, seed=seed)
    return engine.submit(Request(prompt, n=n, sampling=sampling, stop=stop, priority=Priority.NORMAL))


def rest(engine: Engine) -> float:
    """Wait until the engine has finished its idle work; return the seconds."""
    begun = time.perf_counter()
    before = None
    while before != (now := _idle_work(engine)):
        before = now
        time.sleep(0.3)  # idle work begins after a rest of a quarter of a second
    return time.perf_counter() - begun


def _idle_work(engine: Engine) -> tuple[int, int]:
    stats = engine.stats()
    return stats.decodes, stats.saved_tokens
