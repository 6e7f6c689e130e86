"""How much memory a model will take: weights, the cache of keys and values, and room to compute in.

Knows headers and sizes. How many cells the cache gets is told to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srbwriter.models.header import Header

BITS = {
    "f32": 32.0, "f16": 16.0, "bf16": 16.0, "q8_0": 8.5, "q5_1": 6.0, "q5_0": 5.5, "q4_1": 5.0, "q4_0": 4.5,
    "iq4_nl": 4.5,
}  # fmt: skip
"""Bits that one number takes, scales included (block sizes of ``ggml-common.h``)."""

Verdict = Literal["fits", "tight", "too large"]


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of memory, by what they are for."""

    weights: int
    cache: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.compute

    def verdict(self, memory: int, budget: int) -> Verdict:
        """Whether it ``fits`` the budget, is ``tight`` in the whole memory, or is ``too large``."""
        if self.total <= budget:
            return "fits"
        return "tight" if self.total <= memory else "too large"


DEFAULT_BATCH = 512
"""Most tokens that are computed at once unless a number is given."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a model is to be run, as far as memory goes.

    ``cells`` are the tokens that the cache holds, ``batch`` the most tokens computed at once, ``outputs``
    the most of them that get probabilities. Without ``flash_attention`` all scores of a batch are kept.
    """

    cells: int
    key_type: str = "f16"
    value_type: str = "f16"
    flash_attention: bool = False
    batch: int = DEFAULT_BATCH
    outputs: int = 128


def need(header: Header | None, weights: int, run: Run) -> Need:
    """What running a model takes; without a header, what is known of it.

    The cache is exact; computing was within 5 % of what llama.cpp reserves on a CPU for models of 5 million
    to 1.1 billion parameters. A state that some models keep instead of a cache is left out.

    Args:
        header: what the model says of itself.
        weights: size of its files in bytes.
        run: how it will be run.
    """
    if header is None:
        return Need(weights, 0, 0)
    keys = sum(key for key, _ in header.kv_widths)
    values = sum(value for _, value in header.kv_widths)
    cache = run.cells * (keys * BITS[run.key_type] + values * BITS[run.value_type]) / 8
    return Need(weights, int(cache), _compute(header, run))


def _compute(header: Header, run: Run) -> int:
    rows = _FLOAT * run.batch * (_WIDTHS * header.width + _HIDDEN * header.hidden)
    logits = _FLOAT * run.outputs * header.vocabulary
    for_each_cell = _FLOAT // 2 if run.flash_attention else _FLOAT * (1 + header.heads)  # mask, scores
    return rows + logits + run.batch * run.cells * for_each_cell


_FLOAT = 4
_WIDTHS, _HIDDEN = 6, 3
"""Live rows of a layer's width and of its hidden width while a batch is computed; measured."""
