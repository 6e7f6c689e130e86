"""A simulated GPU, for rules that no processor shows: steps of a fixed time, and cells that are dear to copy.

``with simulated(DEVICES["8b"]):`` an engine that is loaded takes its cache to be on a device. A call sleeps
until a GPU would have answered, and leaves the cores idle meanwhile: a step only enters its tokens in the
cells of a model of one narrow layer, and the logits of a row are the same after each. Samplers and Python run
as they do. Where cells lie is followed as llama.cpp places them, so that a copy costs what its separate
pieces cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from srbwriter.engine.native.context import OK, Context
from srbwriter.engine.types import EngineOptions


@dataclass(frozen=True, slots=True)
class Device:
    """What a GPU takes, in seconds; the figures are those of an H200 with a model of this size."""

    model: str  # of :mod:`benchmarks.models`: its vocabulary counts
    step: float  # a step of branches,
    row: float  # and for each branch in it
    token: float  # of a prompt
    tensors: int = 44  # keys and values of 22 layers
    transfer: float = 8e-6  # cells in a row, of one tensor: 45 ms for 128 cells that lie apart
    cell: float = 30e-6  # copied, of all tensors: 0.13 s for 4000 cells in a row


DEVICES = {
    "1.1b": Device("narrow32k-q4_0", step=1.1e-3, row=0.1e-3, token=0.03e-3),
    "8b": Device("narrow128k-q4_0", step=3.0e-3, row=0.25e-3, token=0.1e-3),
}


class Cells:
    """Where the tokens of each sequence lie, by llama.cpp's rule for new ones (``find_slot``)."""

    def __init__(self, cells: int, sequences: int) -> None:
        self.holders = np.zeros(cells, np.int32)  # how many sequences hold a cell
        self.of = np.full((sequences, cells), -1, np.int32)  # by sequence and position
        self.head = 0

    def place(self, count: int) -> NDArray[np.int64]:
        """Return ``count`` free cells, from the last ones on, or from the first if many before are free."""
        free = np.flatnonzero(self.holders == 0)
        if self.head > len(self.holders) - len(free) + 2 * count:
            self.head = 0
        free = np.roll(free, -int(np.searchsorted(free, self.head)))[:count]
        self.head = int(free[-1]) + 1
        return free

    def hold(self, seq: int, position: int, cells: NDArray[Any]) -> None:
        self.of[seq, position : position + len(cells)] = cells
        self.holders[cells] += 1

    def share(self, source: int, target: int, start: int, end: int) -> None:
        held = self.of[source, max(start, 0) : end if end >= 0 else None]
        inside = np.flatnonzero(held >= 0) + max(start, 0)
        self.of[target, inside] = self.of[source, inside]
        self.holders[self.of[target, inside]] += 1

    def drop(self, seq: int, start: int, end: int) -> None:
        row = self.of[seq, max(start, 0) : end if end >= 0 else None]
        cells = row[row >= 0]
        row[:] = -1
        self.holders[cells] -= 1
        freed = cells[self.holders[cells] == 0]
        if len(freed):
            self.head = min(self.head, int(freed.min()))

    def pieces(self, seq: int, start: int, end: int) -> tuple[int, int]:
        """Return how many cells in a row [start, end) of ``seq`` are made of, and how many cells."""
        cells = np.sort(self.of[seq, start:end])
        return 1 + int(np.count_nonzero(np.diff(cells) != 1)), len(cells)

    def compact(self) -> int:
        """Move all cells in use to the beginning; return how many pieces they were in."""
        used = np.flatnonzero(self.holders)
        places = np.full(len(self.holders) + 1, -1, np.int32)  # the last for -1
        places[used] = np.arange(len(used))
        self.of = places[self.of]
        self.holders = (np.arange(len(self.holders)) < len(used)) * np.pad(
            self.holders[used], (0, len(self.holders) - len(used))
        )
        self.head = len(used)
        return 1 + int(np.count_nonzero(np.diff(used) != 1))


class SimulatedContext(Context):
    """A context that takes the time of a device. Only for attention memories without sliding layers.

    Samplers see the ``pointer`` of a second context, which has computed logits for every row once.
    """

    device: Device  # set by :func:`simulated`

    def __init__(self, model: int, *, cells: int, **options: Any) -> None:
        super().__init__(model, cells=cells, **options)
        self.max_rows = rows = self.sequences  # of which there are logits
        self.placed = Cells(self.cells, self.sequences + 1)
        self._answers = Context(model, cells=rows, **options)
        self._answers.batch.add_rows(range(rows), [0] * rows, range(rows))
        assert self._answers.decode() == OK
        self._native, self.pointer = self.pointer, self._answers.pointer

    @contextmanager
    def _on_cells(self) -> Generator[None]:
        """Let llama.cpp work on the cells meanwhile."""
        self.pointer = self._native
        try:
            yield
        finally:
            self.pointer = self._answers.pointer

    def decode(self, meanwhile: Callable[[], None] = lambda: None) -> int:
        begun, batch, size = time.perf_counter(), self.batch, self.batch.size
        output = batch._output[:size]  # pyright: ignore[reportPrivateUsage]
        rows = int(output.sum())
        seconds = (size - rows) * self.device.token
        if rows > 1 or size == 1:  # else it is part of a prompt
            seconds += self.device.step + rows * self.device.row
        wanted = output.copy()
        output[:] = 0
        with self._on_cells():
            code = super().decode(meanwhile)
        output[:] = wanted
        if code == OK:
            self._place_rows(size)
            _sleep_until(begun + seconds)
        return code

    def _place_rows(self, size: int) -> None:
        batch, placed = self.batch, self.placed
        counts, seqs = batch._n_seq[:size], batch._seq[:size]  # pyright: ignore[reportPrivateUsage]
        positions = batch._pos[:size]  # pyright: ignore[reportPrivateUsage]
        cells = placed.place(size)
        placed.of[seqs[:, 0], positions] = cells
        placed.holders[cells] += counts
        for row in np.flatnonzero(counts > 1):
            placed.of[seqs[row, 1 : counts[row]], positions[row]] = cells[row]

    def copy(self, source: int, target: int, start: int = -1, end: int = -1) -> None:
        super().copy(source, target, start, end)
        if end > start or end < 0:
            self.placed.share(source, target, start, end)

    def remove(self, seq: int, start: int = -1, end: int = -1) -> None:
        super().remove(seq, start, end)
        self.placed.drop(seq, start, end)

    def clear(self) -> None:
        super().clear()
        self.placed = Cells(self.cells, self.sequences + 1)

    def save_range(self, seq: int, start: int, end: int) -> NDArray[np.uint8]:
        begun = time.perf_counter()
        with self._on_cells():
            data = super().save_range(seq, start, end)
        self._copy_until(begun, *self.placed.pieces(seq, start, end))
        return data

    def restore_range(
        self, data: NDArray[np.uint8], start: int, end: int, seq: int, first: int, last: int
    ) -> bool:
        begun = time.perf_counter()
        with self._on_cells():
            restored = super().restore_range(data, start, end, seq, first, last)
        if restored:
            cells = self.placed.place(end - start)
            self.placed.hold(seq, first, cells[first - start : last - start])
            self._copy_until(begun, *self.placed.pieces(seq, first, last))
        return restored

    def compact(self) -> None:
        begun = time.perf_counter()
        with self._on_cells():
            super().compact()
        cells = int(np.count_nonzero(self.placed.holders))
        self._copy_until(begun, self.placed.compact() + 1, 2 * cells)  # out, and in again

    def close(self) -> None:
        if self.pointer:
            with self._on_cells():
                super().close()
            self._answers.close()
            self.pointer = 0

    def _copy_until(self, begun: float, pieces: int, cells: int) -> None:
        device = self.device
        _sleep_until(begun + pieces * device.tensors * device.transfer + cells * device.cell)


@contextmanager
def simulated(device: Device) -> Generator[None]:
    """Load engines on a simulated device meanwhile."""
    kind = type("SimulatedContext", (SimulatedContext,), {"device": device})
    with (
        patch("srbwriter.engine.sizing.Context", kind),
        patch("srbwriter.engine.sizing.has_gpu", lambda: True),
        patch("srbwriter.engine.native.context.has_gpu", lambda: True),
    ):
        yield


def device_options(cells: int) -> EngineOptions:
    """Return the options of an engine on a simulated device: nothing is computed, so one thread is enough."""
    return EngineOptions(n_ctx=cells, threads=1, threads_batch=1, seed=1)


def _sleep_until(end: float) -> None:
    if (left := end - time.perf_counter()) > 0:
        time.sleep(left)
