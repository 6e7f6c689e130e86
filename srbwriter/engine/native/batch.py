"""A llama_batch whose arrays are numpy's, filled without a ctypes call per token."""

from __future__ import annotations

import ctypes as C
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .library import L


class Batch:
    """Rows of one ``llama_decode``.

    A sequence goes by the ids ``seq + offset`` for each of ``offsets``.
    """

    def __init__(self, capacity: int, offsets: Sequence[int]) -> None:
        self.capacity = capacity
        self.size = 0
        self._offsets = offsets
        width = len(offsets)
        self._token = np.zeros(capacity, np.int32)
        self._pos = np.zeros(capacity, np.int32)
        self._n_seq = np.full(capacity, width, np.int32)
        self._seq = np.zeros((capacity, width), np.int32)
        self._output = np.zeros(capacity, np.int8)
        self._tokens, self._positions = self._token.data, self._pos.data
        self._seqs: Sequence[int] = ()  # of the rows from 0 on, as they stand in the arrays
        rows = self._seq.ctypes.data + np.arange(capacity, dtype=np.uint64) * np.uint64(width * 4)
        self._rows = np.ascontiguousarray(rows, np.uint64)
        self.native = L.llama_batch(
            0,
            _pointer(self._token, C.c_int32),
            None,
            _pointer(self._pos, C.c_int32),
            _pointer(self._n_seq, C.c_int32),
            C.cast(C.c_void_p(self._rows.ctypes.data), C.POINTER(C.POINTER(C.c_int32))),
            _pointer(self._output, C.c_int8),
        )

    def clear(self) -> None:
        self.size = 0

    def add_rows(self, tokens: Sequence[int], positions: Sequence[int], seqs: Sequence[int]) -> None:
        """Add one row per branch; each computes logits."""
        start, end = self.size, self.size + len(tokens)
        self._tokens[start:end] = array("i", tokens)  # at a fraction of the cost of an assignment of numpy's
        self._positions[start:end] = array("i", positions)
        if start or seqs != self._seqs:  # mostly the same branches write as in the step before
            self._belong(start, end, seqs)
            self._output[start:end] = 1
            self._seqs = () if start else seqs
        self.size = end

    def add_run(self, tokens: Sequence[int], position: int, seq: int, outputs: bool | int) -> int:
        """Add consecutive tokens of one sequence; return the index of the last row.

        ``outputs``: True computes logits of every row, an integer those of that many rows at the end.
        """
        start, end = self.size, self.size + len(tokens)
        self._token[start:end] = tokens
        self._pos[start:end] = np.arange(position, position + len(tokens), dtype=np.int32)
        self._belong(start, end, seq)
        if start < len(self._seqs):
            self._seqs = ()
        self._output[start:end] = outputs is True
        if outputs is not True and outputs > 0:
            self._output[end - outputs : end] = 1
        self.size = end
        return end - 1

    def _belong(self, start: int, end: int, seqs: Sequence[int] | int) -> None:
        """Rows [start, end) are those of one sequence each."""
        for column, offset in enumerate(self._offsets):
            self._seq[start:end, column] = seqs
            self._seq[start:end, column] += offset

    def take(self) -> Any:
        """The native struct, sized for the rows added."""
        self.native.n_tokens = self.size
        return self.native


def _pointer(array: NDArray[Any], kind: type[C.c_int32] | type[C.c_int8]) -> Any:
    return array.ctypes.data_as(C.POINTER(kind))
