"""How many threads a step gets: one a core, and fewer while other programs use some of the cores.

llama.cpp's threads wait for each other after every operation. Where another program holds one of two cores,
a step with two threads takes up to twenty times as long, and one with one thread twice. So the cores that
others use are counted four times a second, from the figures of the system; no step is timed. A core is given
away once two counts on end say so, and taken back by one that says it is free. What others use while the
engine rests takes nothing from it: a count that a rest falls into gives nothing away.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .cores import affinity

INTERVAL = 0.25
"""Seconds between two counts."""
PATIENCE = 2
"""Counts on end that find a core in use before it is given away: a moment of another program's is shorter."""
_STALE = 2.0  # seconds: a longer span would mix in what was before a pause


def read_cores() -> tuple[int, float]:
    """Return how many processors this process may use, and for how many seconds they were idle in all."""
    import psutil  # here, since it takes long to import

    times = psutil.cpu_times(percpu=True)
    ours = affinity() or range(len(times))
    if max(ours) < len(
        times
    ):  # with a processor switched off, positions in the list are not numbers any more
        times = [times[number] for number in ours]
    return len(times), sum(one.idle + getattr(one, "iowait", 0.0) for one in times)


class Threads:
    """The number of threads for the next step. Belongs to the engine's thread."""

    def __init__(
        self,
        most: int,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
        cores: Callable[[], tuple[int, float]] = read_cores,
    ) -> None:
        """Begin with ``most`` threads, and never use more.

        Args:
            most: threads.
            clock: seconds.
            used: seconds of processor time that this process has used.
            cores: the processors that it may use, and the seconds for which they have been idle in all.
        """
        self.most = self.now = most
        self._clock, self._used, self._cores = clock, used, cores
        self._last: tuple[float, float, float] | None = None  # time, own and idle seconds
        self._rested = False  # since the last count
        self._in_use = 0  # counts on end that found fewer cores free than there are threads

    def rest(self) -> None:
        """Note that the engine has nothing to do."""
        self._rested = True

    def count(self) -> int:
        """Return the number of threads for the next step: one for each core that is free, at least one.

        A core that other programs use less than half counts as free: terminals and browsers work in bursts.
        """
        now = self._clock()
        if self.most == 1 or (self._last is not None and now < self._last[0] + INTERVAL):
            return self.now
        cores, idle_now = self._cores()
        last, self._last = self._last, (now, self._used(), idle_now)
        rested, self._rested = self._rested, False
        if last is None or now >= last[0] + _STALE:
            return self.now
        span = now - last[0]
        own, idle = (self._last[1] - last[1]) / span, (self._last[2] - last[2]) / span
        others = max(0.0, cores - own - idle)
        if idle < 0.5 and 0 < own < self.now:  # all cores are shared, so others got as little as we did
            others *= self.now / own
        free = max(1, min(self.most, round(cores - others)))
        if free >= self.now:
            self._in_use = 0
        elif not rested:
            self._in_use += 1
        if free > self.now or self._in_use == PATIENCE:
            self.now, self._in_use = free, 0
        return self.now
