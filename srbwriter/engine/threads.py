"""How many threads a step gets: all cores, and fewer while another program wants some of them.

llama.cpp's threads wait for each other after every operation. Where a neighbour holds one of the cores, all
of them wait for the thread that stands on it, and a step takes two to twenty times as long; with one thread
fewer it would take a little longer than with all. So the times of the steps are watched, and where they look
like that, fewer threads are tried for a few steps and kept if they are faster; more are tried again later.
Pure arithmetic on times; must never know llama.cpp.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Shape: TypeAlias = "tuple[int, int]"
"""Steps whose times can be compared."""

SLOW = 1.5
"""Times the best step of its shape, from which on a step counts as slow."""
WATCHED = 8
"""Steps that are looked back on; as many as half of them have to be slow."""
TRIED = 6
"""Steps that another number of threads is tried for."""
BETTER_WITH_FEWER, BETTER_WITH_MORE = 0.9, 0.97
"""Share of the time before that the steps of a trial may take, for its number of threads to stay."""
SOONEST, LATEST = 1.0, 15.0
"""Seconds until more threads are tried again, and until fewer are; doubled by each trial in vain."""
AT_FIRST = 0.2
"""Seconds until more are tried for the first time: mostly it was a burst, of the terminal app for example."""
_FORGETS = 1.001  # a best time is forgotten: processors get slower when they are hot
_MOST_SHAPES = 4096


def shape(rows: int, cells: int) -> Shape:
    """The shape of a step of ``rows`` over ``cells``; the larger ones in classes a fifth apart."""
    return (rows if rows < 16 else _class(rows) + 16), _class(1 + cells // 256)


def _class(size: int) -> int:
    return int(4 * math.log2(size))


class Threads:
    """The number for the next step. Belongs to the engine's thread; ``clock`` gives seconds."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.now = most
        self._clock = clock
        self._best: dict[tuple[int, Shape], float] = {}
        self._usual: dict[tuple[int, Shape], float] = {}  # running means
        self._slow: deque[bool] = deque(maxlen=WATCHED)
        self._trial: _Trial | None = None
        self._settling = False  # the first step after a change wakes threads up
        self._fewer, self._more = _Patience(0.0), _Patience(SOONEST)
        self._looked = False  # whether fewer than now have been tried, neighbour or not

    def learn(self, shape: Shape, seconds: float) -> int:
        """A step took ``seconds``; the number of threads for the next one."""
        if self._settling:
            self._settling = False
        elif self._trial is not None:
            self._try(self._trial, shape, seconds)
        elif self.most > 1:
            self._watch(shape, seconds)
        return self.now

    def _watch(self, shape: Shape, seconds: float) -> None:
        key = (self.now, shape)
        if len(self._best) > _MOST_SHAPES:
            self._best.clear()
            self._usual.clear()
        known = key in self._best
        best = self._best[key] = min(self._best.get(key, seconds) * _FORGETS, seconds)
        usual = self._usual[key] = self._usual.get(key, seconds) * 0.8 + seconds * 0.2
        self._slow.append(seconds > SLOW * best)
        if not known or len(self._slow) < WATCHED:
            return
        now = self._clock()
        slow = 2 * sum(self._slow) >= WATCHED or not self._looked  # a neighbour may have been there before us
        if slow and self.now > 1 and self._fewer.over(now):
            self._looked = True
            self._begin(_fewer(self.now, self._fewer.times), BETTER_WITH_FEWER, usual)
        elif self.now < self.most and self._more.over(now):
            self._begin(min(self.now + max(1, self.now // 7), self.most), BETTER_WITH_MORE, usual)

    def _begin(self, threads: int, share: float, usual: float) -> None:
        self._trial = _Trial(self.now, share, share * usual * TRIED)
        self._change(threads)

    def _try(self, trial: _Trial, shape: Shape, seconds: float) -> None:
        """One step of a trial, which is given up as soon as it has taken what all of it may take."""
        trial.steps += 1
        before = self._usual.get((trial.threads, shape))
        if before is not None:
            trial.compared += 1
            trial.took += seconds
            trial.before += before
        in_vain = trial.took > trial.may_take or trial.steps >= 4 * TRIED
        if not in_vain and trial.compared < TRIED:
            return
        self._trial = None
        now = self._clock()
        mine, other = (self._fewer, self._more) if self.now < trial.threads else (self._more, self._fewer)
        if in_vain or trial.took > trial.share * trial.before:
            mine.in_vain(now)
            self._change(trial.threads)
        else:
            mine.start(now, 0.0)
            other.start(now, AT_FIRST if other is self._more else SOONEST)
            self._looked = mine is self._more  # fewer still may be better still
            self._slow.clear()

    def _change(self, threads: int) -> None:
        self.now = threads
        self._settling = True
        self._slow.clear()


class _Trial:
    __slots__ = ("before", "compared", "may_take", "share", "steps", "threads", "took")

    def __init__(self, threads: int, share: float, may_take: float) -> None:
        self.threads = threads  # to go back to
        self.share = share
        self.may_take = may_take  # seconds
        self.steps = self.compared = 0
        self.took = self.before = 0.0


class _Patience:
    """When to try again: later after each trial in vain."""

    def __init__(self, seconds: float) -> None:
        self.times = 0  # in vain since the last success
        self._at = -math.inf
        self._wait = seconds

    def over(self, now: float) -> bool:
        return now >= self._at

    def start(self, now: float, seconds: float = SOONEST) -> None:
        self.times = 0
        self._wait = seconds
        self._at = now + seconds

    def in_vain(self, now: float) -> None:
        self.times += 1
        self._wait = min(max(2 * self._wait, SOONEST), LATEST)
        self._at = now + self._wait


def _fewer(threads: int, in_vain: int) -> int:
    """A little fewer; where that was in vain, half, a quarter, an eighth: neighbours can be many."""
    part = in_vain % 4
    return max(1, threads >> part) if part else threads - max(1, threads // 8)
