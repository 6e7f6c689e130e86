"""Sampling the branches of a step on several threads, where the vocabulary is large and that is faster.

A chain belongs to one branch, so which thread runs it makes no difference to what it chooses. Whether threads
pay depends on the chain (0.1 to 7 ms a branch at 128k tokens), on the number of branches, and on who else
wants the cores. So both ways are timed, the slower one now and then. These threads never compute with
llama.cpp: OpenMP keeps a team for each that does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from .native.context import Context
from .native.library import library
from .native.samplers import Sampler

LARGE = 100_000
"""Tokens of a vocabulary from which on it is tried."""
FEWEST = 8
"""Branches of a step from which on it is tried."""
WORTH_IT = 0.9
"""Share of the time on one thread that several may take."""
_LEAST = 5e-4  # seconds; a step that samples sooner has nothing to gain
_EACH = 4  # branches of a thread, at least
_TRIED = 4  # steps of a trial, at most
_HOPELESS = (
    2.0  # times the better way, from which on a trial is given up; a thread that wakes up takes a while
)
_SOONEST, _LATEST = 16, 4096  # steps until the other way is tried again; doubled by each trial in vain


class Trials:
    """Which of two ways takes less time a branch: the better is taken, the other tried now and then."""

    def __init__(self) -> None:
        self._seconds = [0.0, 0.0]  # a branch: on one thread, on several
        self._trying = 0  # steps left of a trial
        self._wait = self._left = _SOONEST  # steps between two trials, and until the next

    @property
    def better(self) -> bool:
        """Whether several threads are."""
        one, several = self._seconds
        return 0.0 < several < one * WORTH_IT

    def several(self, branches: int) -> bool:
        """Whether the next step is to sample its ``branches`` on several threads."""
        if self._seconds[0] * branches < _LEAST:
            return False
        return self.better != (self._trying > 0)

    def learn(self, several: bool, branches: int, seconds: float) -> None:
        """A step sampled so many ``branches`` in ``seconds``."""
        better, now = self.better, seconds / branches
        # the shortest of late: whoever takes a core for a moment says nothing of the way
        before = self._seconds[several]
        self._seconds[several] = min(now, before * 1.05) if before else now
        if self.better != better:
            self._wait, self._trying = _SOONEST, 0
            self._left = self._wait
        elif several != better:
            self._trying -= 1
            if now > _HOPELESS * self._seconds[better] or not self._trying:
                self._wait, self._trying = min(2 * self._wait, _LATEST), 0
                self._left = self._wait
        elif self._left:
            self._left -= 1
        else:
            self._trying = _TRIED


class SamplingThreads:
    """Threads beside the engine's own.

    Args:
        most: threads in all.
        now: how many a step may have at present.
        always: use them wherever they can be.
    """

    def __init__(
        self, context: Context, most: int, now: Callable[[], int], *, always: bool = False
    ) -> None:  # fmt: skip
        self.context, self.most, self._now, self._always = context, most, now, always
        self._trials = Trials()
        self._pool: ThreadPoolExecutor | None = None
        lib = library()
        self._short, self._long = lib.llama_sampler_sample, lib.sample_without_gil

    def sample(self, chains: Sequence[Sampler], rows: Sequence[int]) -> Sequence[int]:
        """A token for each chain from its row of the last decode, accepted by the chain.

        Every row has logits, and no chain comes twice.
        """
        branches = len(chains)
        threads = min(self.most, self._now(), branches // _EACH)
        several = threads > 1 and (self._always or self._trials.several(branches))
        started = time.perf_counter()
        tokens = self._on_several(chains, rows, threads) if several else self._part(self._short, chains, rows)
        if threads > 1:
            self._trials.learn(several, branches, time.perf_counter() - started)
        return tokens

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _part(self, sample: Callable[..., int], chains: Sequence[Sampler], rows: Sequence[int]) -> list[int]:
        context = self.context.pointer
        return [sample(chain, context, row) for chain, row in zip(chains, rows, strict=True)]

    def _on_several(self, chains: Sequence[Sampler], rows: Sequence[int], threads: int) -> list[int]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.most - 1, "srbwriter-sampling")
        self.context.logits(rows[0])  # the first look at a decode puts its rows in order
        cuts = [len(rows) * k // threads for k in range(threads + 1)]
        others = [
            self._pool.submit(self._part, self._long, chains[begin:end], rows[begin:end])
            for begin, end in zip(cuts[1:], cuts[2:], strict=False)
        ]
        tokens = self._part(self._long, chains[: cuts[1]], rows[: cuts[1]])
        for other in others:
            tokens += other.result()
        return tokens
