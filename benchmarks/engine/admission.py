"""How long the engine's thread is held when many branches are let in on a long text that it holds already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Priority, Request, Stop

from .setting import Setting, story_ids

TOKENS = 12
"""Of each branch."""
MOMENTS = ("first", "again", "picked", "after others")
"""The text was read just now; it is asked for again; a branch of it was picked; other texts came between."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Seconds in which nothing is decoded, from the request until every branch has a token of its own."""

    held: dict[str, list[float]]  # by moment
    longest: dict[str, list[float]]  # of these, in one piece


class _Held:
    """Time of steps outside of llama_decode and llama_synchronize."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.native = engine, 0.0

    def until(self, done: Callable[[], bool]) -> tuple[float, float]:
        lib: Any = self.engine._context._lib  # pyright: ignore[reportPrivateUsage]
        held: list[float] = []
        with (
            patch.object(lib, "llama_decode", self._timed(lib.llama_decode)),
            patch.object(lib, "llama_synchronize", self._timed(lib.llama_synchronize)),
        ):
            while not done():
                begun, self.native = perf_counter(), 0.0
                self.engine.process()
                held.append(perf_counter() - begun - self.native)
        return sum(held), max(held)

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            begun = perf_counter()
            result = function(*given)
            self.native += perf_counter() - begun
            return result

        return timed


def measure(setting: Setting, story: int, n: int, rounds: int) -> Admission:
    """Let ``n`` branches in on a story of ``story`` tokens, ``rounds`` times at each moment."""
    result = Admission({m: [] for m in MOMENTS}, {m: [] for m in MOMENTS})
    options = replace(setting.options(2 * story + 4 * n * TOKENS + 4096), max_branches=max(n, 8))
    for number in range(rounds):
        with Engine.load(setting.model, options, thread=False) as engine:
            text = story_ids(engine, story, f"Tale {number}. ")
            _run(engine, _ask(engine, setting, text, 1, 1))
            _rest(engine)
            for moment in MOMENTS:
                if moment == "after others":
                    for k in range(8):
                        _run(engine, _ask(engine, setting, story_ids(engine, 400, f"Other {k}. "), 4, TOKENS))
                        _rest(engine)
                generation = _ask(engine, setting, text, n, TOKENS)
                held, longest = _Held(engine).until(_begun(generation))
                result.held[moment].append(held)
                result.longest[moment].append(longest)
                _run(engine, generation)
                _rest(engine)
                if moment == "again":
                    text = [*text, *generation.branches[number % n].ids]
    return result


def middle(times: dict[str, list[float]]) -> dict[str, float]:
    return {moment: median(values) for moment, values in times.items()}


def _begun(generation: Generation) -> Callable[[], bool]:
    return lambda: all(branch.buffer.ids for branch in generation.branches)


def _ask(engine: Engine, setting: Setting, text: list[int], n: int, tokens: int) -> Generation:
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    return engine.submit(
        Request(text, n=n, sampling=setting.sampling, stop=stop, priority=Priority.FOREGROUND)
    )


def _run(engine: Engine, generation: Generation) -> None:
    while not generation.done:
        engine.process()


def _rest(engine: Engine) -> None:
    """What is done while nobody waits."""
    while engine.process(0):
        pass
