"""Rounds in which every contestant writes once, in turn, and their statistics.

Other work on the machine slows the contestant that runs at that moment; so contestants alternate, each round
gives one ratio of neighbours in time, and medians are taken. Processor time depends less on other work than
wall time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median

from srbwriter.engine import Engine

from . import peers
from .asking import ask, rest
from .contestants import BareLoop, Contestant, EngineContestant, Score
from .setting import Setting, story_ids


@dataclass(frozen=True, slots=True)
class Result:
    """Scores of one n, round by round, by name of the contestant."""

    n: int
    scores: dict[str, list[Score]]

    def speed(self, name: str) -> float:
        """Median tokens per second."""
        return median(score.speed for score in self.scores[name])

    def ratios(self, name: str, other: str) -> list[float]:
        """Speed of one contestant in terms of another's, round by round, lowest first."""
        pairs = zip(self.scores[name], self.scores[other], strict=True)
        return sorted(a.speed / b.speed for a, b in pairs)

    def busy_ratio(self, name: str, other: str) -> float:
        """Return the median ratio of tokens per second of processor time, which other work hardly changes.

        NaN if the processor time of a contestant is unknown.
        """
        pairs = zip(self.scores[name], self.scores[other], strict=True)
        known = [(a.tokens / a.busy) / (b.tokens / b.busy) for a, b in pairs if a.busy and b.busy]
        return median(known) if known else nan

    def rows(self, name: str) -> float:
        """Rows decoded per token written; below 1 where identical branches shared rows."""
        return median(score.rows / score.tokens for score in self.scores[name])


def rounds(contestants: Sequence[Contestant], n: int, number: int) -> Result:
    """``number`` rounds of n branches; every other round goes the other way round."""
    for contestant in contestants:
        contestant.write(n, 0)  # the first run pays for pages and graphs
    scores: dict[str, list[Score]] = {contestant.name: [] for contestant in contestants}
    for seed in range(1, number + 1):
        for contestant in contestants[:: 1 if seed % 2 else -1]:
            scores[contestant.name].append(contestant.write(n, seed))
    return Result(n, scores)


@dataclass(frozen=True, slots=True)
class Match:
    """One table: the contestants, the prompt, and the state of the caches.

    With ``others`` every cache has seen as many other prompts before.
    """

    setting: Setting
    counts: Sequence[int]
    rounds: int
    beside: Sequence[str] = ("bare",)
    programs: Path | None = None  # llama.cpp's
    others: int = 0
    other_tokens: int = 256  # of each other prompt

    def results(self) -> Iterator[Result]:
        """A result for each n, as soon as it is there."""
        setting, most = self.setting, max(self.counts)
        with ExitStack() as stack:
            engine = stack.enter_context(Engine.load(setting.model, setting.options()))
            self._use(engine, lambda prompt, seed: ask(engine, setting, prompt, 1, 1, seed).wait())
            rest(engine)
            contestants = [*self._in_process(engine, stack, most)]
            shared = [] if setting.defaults else stack.enter_context(self._served(engine, most))
            for n in self.counts:
                with self._served(engine, n) if setting.defaults else nullcontext(shared) as served:
                    yield rounds([*contestants, *served], n, self.rounds)

    def _in_process(self, engine: Engine, stack: ExitStack, most: int) -> Iterator[Contestant]:
        yield EngineContestant(self.setting, engine, tidy=not self.others)
        if "bare" in self.beside:
            bare = BareLoop(self.setting, engine, most)
            stack.callback(bare.close)
            yield bare

    @contextmanager
    def _served(self, engine: Engine, n: int) -> Iterator[list[Contestant]]:
        """Start a llama-server for n branches, with four slots at least, if one is requested."""
        if "server" not in self.beside:
            yield []
            return
        slots = max(4, n)
        server = peers.Server(self.setting, peers.program(self.programs, "llama-server"), slots)
        try:
            self._use(engine, lambda prompt, seed: server.complete(prompt, 1, 1, seed))
            yield [peers.ServerContestant(self.setting, engine, server)]
        finally:
            server.close()

    def _use(self, engine: Engine, write: Callable[[list[int], int], object]) -> None:
        """Have the other prompts written on."""
        for number in range(self.others):
            write(story_ids(engine, self.other_tokens, f"Tale {number}. "), number + 1)
