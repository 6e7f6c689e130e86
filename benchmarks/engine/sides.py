"""A writer's session, and its two sides: the engine as a library, and a server over HTTP.

Both get the same token ids and requests for n branches, and are measured from outside: when every branch had
text, when all had ended, and the evaluated tokens by their own counters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation

from .asking import FirstText, ask, rest
from .peers import CompletionServer
from .setting import Setting


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one prompt. Times in seconds, since it was sent."""

    ids: list[list[int]]  # of each branch
    first: float  # until every branch had text
    seconds: float  # until all had ended
    evaluated: int  # tokens of the prompt
    busy: float  # processor time of the side


class Side(Protocol):
    name: str

    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Round: ...

    def rest(self) -> tuple[int, float]:
        """Wait for idle work; return the evaluated tokens and the seconds."""
        ...


class EngineSide:
    """The engine in this process, asked as by a writer's face."""

    name = "srbwriter"

    def __init__(self, setting: Setting, engine: Engine) -> None:
        self.setting, self.engine = setting, engine
        self._on_screen: list[Generation] = []  # as a face holds what it shows

    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Round:
        before = self.engine.stats().prompt_rows
        begun, busy = time.perf_counter(), time.process_time()
        generation = ask(self.engine, self.setting, prompt, n, tokens, seed)
        first = FirstText(generation, n)
        generation.wait()
        seconds, busy = time.perf_counter() - begun, time.process_time() - busy
        self._on_screen = [*self._on_screen[-7:], generation]
        ids = [list(branch.ids) for branch in generation.branches]
        return Round(ids, first.at - begun, seconds, self.engine.stats().prompt_rows - before, busy)

    def rest(self) -> tuple[int, float]:
        before = _evaluated(self.engine)
        seconds = rest(self.engine)
        return _evaluated(self.engine) - before, seconds


class ServerSide:
    """A server of ``/completion``, read as a stream."""

    def __init__(self, server: CompletionServer) -> None:
        self.name, self.server = server.name, server

    def write(self, prompt: list[int], n: int, tokens: int, seed: int) -> Round:
        ids: list[list[int]] = [[] for _ in range(n)]
        silent = set(range(n))
        first = evaluated = 0
        begun, busy = time.perf_counter(), self.server.processor_seconds()
        for chunk in self.server.stream(prompt, n, tokens, seed):
            index = chunk["index"]
            if chunk["stop"]:
                if index == 0:  # the others are copies of it
                    evaluated = int(chunk["timings"]["prompt_n"])
                continue
            ids[index] += chunk["tokens"]
            if chunk["content"] and silent:
                silent.discard(index)
                if not silent:
                    first = time.perf_counter() - begun
        seconds = time.perf_counter() - begun
        return Round(ids, first, seconds, evaluated, self.server.processor_seconds() - busy)

    def rest(self) -> tuple[int, float]:
        return 0, 0.0


class Played(NamedTuple):
    """One round of one side, in seconds and tokens; ``later`` and ``resting`` are for idle work."""

    round: Round
    typed: int  # tokens of the prompt that were not written by the model
    later: int
    resting: float


@dataclass(frozen=True, slots=True)
class Script:
    """What the writer does."""

    opening: list[int]
    words: list[int]  # typed in every third round
    rounds: int = 20
    branches: int = 8
    tokens: int = 64
    rests: bool = True  # or picks the moment all have ended

    def play(self, side: Side) -> Iterator[Played]:
        """Yield the opening, then ``rounds`` rounds, each written on request."""
        done: list[tuple[list[int], list[list[int]]]] = []  # the prompt and the branches of each round
        path, typed = self.opening, len(self.opening)
        for number in range(self.rounds + 1):
            if number:
                back = number % 4 == 0
                before, branches = done[number // 2 if back else -1]
                words = self.words if number % 3 == 0 else []
                picked = branches[(3 * number + 2 * back) % len(branches)]
                path, typed = before + picked + words, len(words)
            result = side.write(path, self.branches, self.tokens, number + 1)
            later, resting = side.rest() if self.rests else (0, 0.0)
            done.append((path, result.ids))
            yield Played(result, typed, later, resting)


def alternate(script: Script, sides: Sequence[Side]) -> dict[str, list[Played]]:
    """Run all rounds of all sides, in turns; the first side changes from round to round."""
    plays = [(side.name, script.play(side)) for side in sides]
    played: dict[str, list[Played]] = {side.name: [] for side in sides}
    for number in range(script.rounds + 1):
        for name, play in plays[:: -1 if number % 2 else 1]:
            played[name].append(next(play))
    return played


def _evaluated(engine: Engine) -> int:
    stats = engine.stats()
    return stats.prompt_rows + stats.branch_rows
