"""How fast a model writes on this machine, estimated from the steps of the bundled one.

A step writes one token in each branch and reads all weights that it computes with, so its time grows with
their bytes. Nothing is measured here; the caller passes in what was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from srbwriter.models.fit import GPU_SPARE, Gpu

WORDS_PER_TOKEN = 0.75
"""Of English prose, about; vocabularies of 32,000 to 152,000 tokens differ by a tenth."""

LEAST_WORDS = 3.0
"""Words a second in each branch below which a model is slow. People read four or five."""

_GPU_STEP = WORDS_PER_TOKEN / 7
"""Seconds of a step of a model in a graphics card's own memory, at most. Any card reads all of it ten times a
second, 24 GB of the slowest too (346 GB/s)."""


class Pace(NamedTuple):
    """Seconds that a step on the processor takes for a byte of weights: with one branch and with several."""

    branches: int
    alone: float
    together: float


@dataclass(frozen=True, slots=True)
class Machine:
    """What models have to get along with. Without a ``pace`` it was not measured how fast it computes."""

    memory: int
    budget: int  # of it, for a model
    gpus: tuple[Gpu, ...] = ()
    pace: Pace | None = None

    def gpu_share(self, memory: int) -> float:
        """Return how much of a model that needs ``memory`` bytes the GPUs' own memory holds, 0 to 1."""
        return min(sum(max(gpu.free - GPU_SPARE, 0) for gpu in self.gpus if not gpu.shared) / memory, 1.0)


class Weights(NamedTuple):
    """Bytes that a step reads: all ``dense`` ones, and of ``experts`` the ``share`` that a token chooses."""

    dense: float
    experts: float = 0.0
    share: float = 0.0


class Speed(NamedTuple):
    """An estimate: words a second in each of several ``branches``, and in a branch that is written ``alone``.

    With ``on_gpu`` it is the least that a graphics card does.
    """

    branches: int
    words: float
    alone: float
    on_gpu: bool = False

    def __str__(self) -> str:
        if self.on_gpu:
            return f"at least {number_words(self.words)} words a second in each branch, on the GPU"
        text = f"about {number_words(self.words)} words a second"
        if self.branches == 1:
            return text
        text += f" in each of {self.branches} branches"
        return text if self.words >= LEAST_WORDS else f"{text}, {number_words(self.alone)} in a single one"


def number_words(words: float) -> str:
    """Return words a second as exactly as an estimate is."""
    return f"{words:.0f}" if words >= LEAST_WORDS else f"{words:.1f}"


def estimate_speed(weights: Weights, memory: int, machine: Machine) -> Speed | None:
    """Return how fast a model that needs ``memory`` bytes would write; None where nothing was measured."""
    pace, gpu = machine.pace, machine.gpu_share(memory)
    if pace is None:
        return None

    def words(branches: int) -> float:
        each = pace.alone if branches == 1 else pace.together
        experts = min(branches * weights.share * pace.alone, each)  # hardly ever do branches choose the same
        seconds = weights.dense * each + weights.experts * experts
        return WORDS_PER_TOKEN / (seconds * (1 - gpu) + _GPU_STEP * gpu)

    return Speed(pace.branches, words(pace.branches), words(1), on_gpu=gpu == 1.0)
