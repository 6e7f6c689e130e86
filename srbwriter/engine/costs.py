"""What a step costs on this machine: times measured once for each model, and what follows from them.

Pure arithmetic and a small file; :mod:`.measuring` takes the times. Must never know llama.cpp.
"""

from __future__ import annotations

import json
import logging
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from srbwriter import paths

log = logging.getLogger(__name__)

_VERSION = 1
_KEPT = 64  # tables; the oldest beyond that are deleted
_WORTH_IT = 0.93  # share of the time, below which another way of doing a step is preferred


class Setting(NamedTuple):
    """How a step is computed."""

    threads: int
    flash: bool  # flash attention


class Choice(NamedTuple):
    """How a step is computed soonest."""

    threads: int
    padded: int  # rows, with those of nothing
    at_once: int  # rows, of those asked for


class Point(NamedTuple):
    """A step of ``rows`` tokens over ``cells`` cells in use took ``seconds``."""

    setting: Setting
    rows: int
    cells: int
    seconds: float


@dataclass(frozen=True)
class CostTable:
    """Times of one model on one machine, in seconds.

    ``usual`` is how steps are computed unless something is gained by another way. ``prompt`` is the time to
    evaluate one token of a long prompt, ``copy_out`` and ``copy_in`` to copy one token's state from the cells
    to host memory and back; where a memory cannot be cut (``whole``), a sequence's whole state. 0 is unknown.
    ``steady`` says that the machine did nothing else while they were measured. Where it did, ``usual`` has
    one thread, which is all that could be measured, and nothing is chosen by the table.
    """

    usual: Setting
    points: tuple[Point, ...]
    prompt: float = 0.0
    copy_out: float = 0.0
    copy_in: float = 0.0
    state_bytes: float = 0.0  # of one token, or of a whole sequence
    whole: bool = False
    steady: bool = True
    took: float = 0.0  # seconds of measuring

    # ---- times

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Every way that was measured, the usual one first."""
        return tuple(dict.fromkeys((self.usual, *(point.setting for point in self.points))))

    def seconds(self, rows: int, cells: int = 0, setting: Setting | None = None) -> float | None:
        """How long a step of ``rows`` tokens takes with ``cells`` cells in use; None if nothing is known.

        Between measured numbers the line between the neighbours counts, and beyond the last its slope.
        """
        depths = self._curves.get(setting or self.usual, {})
        times = [(depth, _between(curve, rows)) for depth, curve in sorted(depths.items())]
        if not times:
            return None
        (low, near), (high, far) = times[0], times[-1]
        if high == low:
            return near
        return near + max(far - near, 0.0) / (high - low) * max(cells - low, 0)

    def threads(self, rows: int, cells: int = 0) -> int:
        """The number of threads that a step of ``rows`` is fastest with."""
        ways = [s for s in self.settings if s.flash == self.usual.flash]  # the other has all
        return self._best(ways, rows, cells).threads

    @cached_property
    def flash(self) -> bool:
        """Whether flash attention is the faster way over a filled cache, one branch and several together."""
        other = Setting(self.usual.threads, not self.usual.flash)
        both = [self._depth(setting) for setting in (self.usual, other)]
        shared = sorted(set(both[0]) & set(both[1]))
        usual, instead = (math.fsum(math.log(times[rows]) for rows in shared) for times in both)
        worth_it = self.steady and bool(shared) and instead < usual + len(shared) * math.log(_WORTH_IT)
        return other.flash if worth_it else self.usual.flash

    # ---- choices

    @cached_property
    def for_rows(self) -> Callable[[int, int], Choice]:
        """Gives the choices for a step of so many rows and cells in use, and remembers them."""

        @cache
        def choice(rows: int, cells: int) -> Choice:
            return Choice(self.threads(rows, cells), self.padded(rows), max(self.split(rows)))

        return choice

    def padded(self, rows: int) -> int:
        """How many rows a step of ``rows`` should have: more of them can take less time."""
        mine = self.seconds(rows)
        if mine is None or not self.steady:
            return rows
        more = [(self.seconds(n) or math.inf, n) for n in self._measured if rows < n <= 2 * rows]
        seconds, best = min(more, default=(math.inf, rows))
        return best if seconds < mine * _WORTH_IT else rows

    def split(self, rows: int) -> tuple[int, ...]:
        """The sizes of the decodes in which ``rows`` are computed soonest; mostly one of all.

        Llama.cpp's kernels for one row and for many differ, and two rows can take longer than twice one.
        """
        if rows > 8 or rows < 2 or not self.steady or self._at_once(rows) is None:
            return (rows,)
        best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for n in range(1, rows + 1):
            ways = [
                (best[n - size][0] + seconds, (*best[n - size][1], size))
                for size in range(1, n + 1)
                if (seconds := self._at_once(size)) is not None
            ]
            best.append(min(ways))
        seconds, sizes = best[rows]
        return sizes if seconds < (self._at_once(rows) or 0.0) * _WORTH_IT else (rows,)

    def copying_is_cheaper(self, tokens: int) -> bool:
        """Whether ``tokens`` come back to the cells sooner by a copy than by evaluating (a step at least)."""
        if not self.copy_in or not self.prompt or not self.steady:
            return True
        evaluating = max(self.prompt * tokens, self.seconds(1) or 0.0)
        return self.copy_in * (1 if self.whole else tokens) < evaluating

    # ---- inside

    @cached_property
    def _curves(self) -> Mapping[Setting, Mapping[int, Sequence[tuple[int, float]]]]:
        """For each setting and depth the (rows, seconds) in order of rows."""
        found: dict[Setting, dict[int, dict[int, float]]] = {}
        for point in self.points:
            found.setdefault(point.setting, {}).setdefault(point.cells, {})[point.rows] = point.seconds
        return {
            setting: {cells: sorted(times.items()) for cells, times in depths.items()}
            for setting, depths in found.items()
        }

    @cached_property
    def _measured(self) -> tuple[int, ...]:
        """Numbers of rows that were measured the usual way."""
        return tuple(sorted({point.rows for point in self.points if point.setting == self.usual}))

    def _depth(self, setting: Setting) -> Mapping[int, float]:
        """Rows and seconds at the greatest depth measured."""
        depths = self._curves.get(setting)
        return dict(depths[max(depths)]) if depths else {}

    def _at_once(self, rows: int) -> float | None:
        return self.seconds(self.padded(rows))

    def _best(self, settings: Iterable[Setting], rows: int, cells: int) -> Setting:
        times = [(t, s) for s in settings if (t := self.seconds(rows, cells, s)) is not None]
        usual = self.seconds(rows, cells)
        if not times or usual is None or not self.steady:
            return self.usual
        seconds, best = min(times)
        return best if seconds < usual * _WORTH_IT else self.usual

    # ---- as text

    def to_json(self) -> str:
        value = {name: entry for name, entry in asdict(self).items() if name != "points"}
        points = [[*point.setting, point.rows, point.cells, point.seconds] for point in self.points]
        return json.dumps({"version": _VERSION, **value, "points": points})

    @classmethod
    def from_json(cls, text: str) -> CostTable:
        """Raises ValueError for anything that :meth:`to_json` did not write."""
        try:
            value = cast("dict[str, Any]", json.loads(text))
            if value.pop("version") != _VERSION:
                raise ValueError("a table of another version")
            points = tuple(_point(entry) for entry in value.pop("points"))
            threads, flash = value.pop("usual")
            table = cls(Setting(_number(threads, int), _number(flash, bool)), points, **value)
            for name in ("prompt", "copy_out", "copy_in", "state_bytes", "took"):
                _seconds(getattr(table, name))
            for name in ("whole", "steady"):
                _number(getattr(table, name), bool)
        except (AttributeError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise ValueError(f"no cost table: {error}") from None
        return table


def _between(curve: Sequence[tuple[int, float]], rows: int) -> float:
    """The time for ``rows`` on a line through measured points; fewer than the first cost what that does."""
    place = bisect_left(curve, (rows, -math.inf))
    if place < len(curve) and (curve[place][0] == rows or place == 0):
        return curve[place][1]
    if len(curve) == 1:
        return curve[0][1] * rows / curve[0][0]
    (n, a), (m, b) = curve[place - 1 : place + 1] if place < len(curve) else curve[-2:]
    return max(a + (b - a) * (rows - n) / (m - n), min(a, b))


def _point(entry: Any) -> Point:
    threads, flash, rows, cells, seconds = entry
    numbers = [_number(item, int) for item in (threads, rows, cells)]
    if numbers[0] < 1 or numbers[1] < 1 or numbers[2] < 0 or _seconds(seconds) <= 0:
        raise ValueError("a point that cannot be")
    return Point(Setting(numbers[0], _number(flash, bool)), numbers[1], numbers[2], seconds)


def _number(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no time")
    return value


# ---- where tables are kept


def costs_dir() -> Path:
    """Tables of this machine, one file each; the folder can be deleted at any time."""
    return paths.cache_dir() / "costs"


def read_table(key: str) -> CostTable | None:
    """The table kept under ``key``; None if there is none that can be used."""
    try:
        return CostTable.from_json((costs_dir() / f"{key}.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        log.debug("no cost table: %s", error)
        return None


def keep_table(key: str, table: CostTable) -> None:
    """Keep ``table`` for the next load. What cannot be kept is measured again, and nobody is told."""
    folder = costs_dir()
    try:
        paths.write_atomic(folder / f"{key}.json", table.to_json().encode())
        by_age = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for file in by_age[:-_KEPT]:
            file.unlink()
    except OSError as error:
        log.info("the cost table cannot be kept: %s", error)
