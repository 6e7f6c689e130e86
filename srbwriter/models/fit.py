"""What fits this machine: its memory, the memory that a model needs, and where the model runs.

Fixed rules over sizes. They know headers and free memory, and neither llama.cpp nor a real device.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from srbwriter.models.files import Header

# ---- this machine

USABLE = 0.75
"""Share of the memory that a model may take; the rest is for the system and other programs."""


def memory() -> int:
    """Return the bytes of memory this process could use: the machine's, or less in a container."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total, _group_figure("memory.max") or total)


def free_memory() -> int:
    """Return the bytes that could be taken now; files that are only cached count as free."""
    import psutil

    free = psutil.virtual_memory().available
    if most := _group_figure("memory.max"):
        cached = sum(_group_figure("memory.stat", name) for name in ("inactive_file", "active_file"))
        free = min(free, most - _group_figure("memory.current") + cached)
    return free


def _group_figure(file: str, name: str = "") -> int:
    """Return what Linux says of this container (control groups, version 2); 0 for "max" and without one."""
    try:
        words = Path("/sys/fs/cgroup", file).read_text("ascii").split()
        return int(words[words.index(name) + 1] if name else words[0])
    except (OSError, ValueError, IndexError):
        return 0


def size_words(size: float) -> str:
    """Return bytes in words with decimal prefixes, for example ``3.4 GB``."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


# ---- what a model takes

BITS = {
    "f32": 32.0, "f16": 16.0, "bf16": 16.0, "q8_0": 8.5, "q5_1": 6.0, "q5_0": 5.5, "q4_1": 5.0, "q4_0": 4.5,
    "iq4_nl": 4.5,
}  # fmt: skip
"""Bits that one number takes, scales included (block sizes of ``ggml-common.h``)."""

Verdict = Literal["fits", "slow", "tight", "too large"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The best first. ``slow`` is what finds the memory and writes fewer than three words a second."""

DEFAULT_BATCH = 512
"""Most tokens that are computed at once unless a number is given."""


class Need(NamedTuple):
    """Bytes of memory, by what they are for."""

    weights: int
    cache: int
    compute: int

    @property
    def total(self) -> int:
        return sum(self)

    def verdict(self, memory: int) -> Verdict:
        """Return whether it ``fits``, is ``tight`` beside everything else, or is ``too large``."""
        fits = self.total <= memory * USABLE
        return "fits" if fits else "tight" if self.total <= memory else "too large"


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


def need(header: Header | None, weights: int, run: Run, layers: slice = slice(None)) -> Need:
    """Return the memory that a model needs; without a header, the known part of it.

    The cache is exact; computing was within 5 % of what llama.cpp reserves on a CPU for models of 5 million
    to 1.1 billion parameters. A state that some models keep instead of a cache is left out.
    ``weights`` is the size of its files in bytes; only the cache of ``layers`` counts.
    """
    if header is None:
        return Need(weights, 0, 0)
    widths = header.kv_widths[layers]
    bits = sum(key * BITS[run.key_type] + value * BITS[run.value_type] for key, value in widths)
    # Six live rows of a layer's width and three of its hidden width while a batch is computed: measured.
    rows = 4 * run.batch * (6 * header.width + 3 * header.hidden)
    scores = 2 if run.flash_attention else 4 * (1 + header.heads)  # mask, scores of each head
    logits = 4 * run.outputs * header.vocabulary
    return Need(weights, int(run.cells * bits / 8), rows + logits + run.batch * run.cells * scores)


# ---- where a model runs: layers on GPUs, and a context that the memory holds

GPU_SPARE = 1 << 30
"""Bytes of a GPU's memory that stay free: for its driver, the screen, and what an estimate misses.
llama.cpp's own fitting leaves as much (``--fit-target``)."""

HOST_SHARE = 7 / 8
"""Share of the free memory of the machine that a model may take."""

LEAST_WINDOW = 2048
"""Tokens below which no context is made smaller: a story of three pages."""

_STEP = 256  # tokens; llama.cpp rounds the cells of a context to as many
_OUTPUT_BITS = 8.5  # of a number in the output layer, which is quantised less than the others


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that llama.cpp can use, and its free bytes. ``shared`` memory is the machine's own."""

    name: str
    free: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """How a model is run on this machine.

    ``n_ctx`` is None where the context is what it is without a number. ``layers`` counts all of them, the
    output layer included, as llama.cpp does; ``split`` is each GPU's share. ``notes`` tell the writer in a
    sentence what was made smaller for lack of memory, and the cure.
    """

    gpu_layers: int
    layers: int
    n_ctx: int | None
    split: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    window: int = 0  # tokens of context
    fits: bool = True  # False: the machine's own memory does not hold it, and it will be slow


def place(
    header: Header, weights: int, run: Run, gpus: Sequence[Gpu], free: int, *, window: int,
    gpu_layers: int | None = None, n_ctx: int | None = None,
) -> Placement:  # fmt: skip
    """Fit a model of ``weights`` bytes to the GPUs and to ``free`` bytes of the machine's memory.

    Each GPU takes as many whole layers as fit it with the whole context. Then the context is made so small
    that the rest fits the machine's memory. A given ``gpu_layers`` or ``n_ctx`` is never changed; ``window``
    is the context size where none is given, and ``run`` is for that.
    """
    blocks, room = max(header.layers, 1), int(free * HOST_SHARE)
    everything = blocks + 1
    output = min(int(header.vocabulary * header.width * _OUTPUT_BITS / 8), weights)
    widest = max(range(len(header.kv_widths)), key=lambda i: header.kv_widths[i], default=0)

    def layers_on(cells: int) -> list[int]:
        """Return the most layers that fit each GPU with so many cells."""
        on_gpu = replace(run, cells=cells, flash_attention=True)
        one = need(header, weights, on_gpu, slice(widest, widest + 1))
        # Models with several experts may begin with layers that have none, and are smaller than the others.
        cost = -(-(weights - output) // max(blocks - header.dense_layers, 1)) + one.cache
        return [max(0, gpu.free - GPU_SPARE - output - one.compute) // max(cost, 1) for gpu in gpus]

    def host_bytes(cells: int) -> int:
        """Return what the machine's own memory has to hold."""
        away = 0 if any(gpu.shared for gpu in gpus) else layers
        as_run = replace(run, cells=cells, flash_attention=run.flash_attention or layers > 0)
        left = weights * (everything - away) // everything
        return need(header, left, as_run, slice(max(blocks - away, 0))).total

    def fits(cells: int) -> bool:
        on_gpu = gpu_layers is None or not layers or layers <= sum(layers_on(cells))
        return on_gpu and host_bytes(cells) <= room

    split = layers_on(n_ctx or run.cells)
    fitting = min(sum(split), everything)
    layers = fitting if gpu_layers is None else gpu_layers if 0 <= gpu_layers <= everything else everything
    layers = layers if gpus else 0
    found = n_ctx
    if n_ctx is None and not fits(run.cells):
        least = min(window, LEAST_WINDOW)
        smaller = [window, *range((window - 1) // _STEP * _STEP, least - 1, -_STEP)]
        found = next((n for n in smaller if fits(n)), least)
    needed = host_bytes(found or run.cells)

    names = " and ".join(gpu.name for gpu in gpus)
    less: list[str] = []
    if gpus and gpu_layers is not None and layers > fitting:
        less.append(f"--gpu-layers {layers} puts more on {names} than fits, about {fitting} of {everything}")
    elif gpus and gpu_layers is None and layers < everything:
        less.append(f"{layers} of {everything} layers run on {names}, the others on the processor")
    if found is not None and n_ctx is None and found < window:
        less.append(f"the context is {found} tokens instead of {window} (--ctx-size insists)")
    if needed > room:
        less.append(f"the model needs {size_words(needed)}: it will be slow, or fail")
    there = [(size_words(gpu.free), gpu.name) for gpu in gpus] + [(size_words(free), "memory")]
    free_words = " and ".join(f"{size} of {what}" for size, what in there)
    note = (
        f"{'; '.join(less)}, because {free_words} are free. Close other programs, choose a smaller "
        "quantisation, or give a smaller --ctx-size or --cache-type-k q8_0 --cache-type-v q8_0."
    )
    return Placement(
        layers, everything, found, tuple(map(float, split)) if len(gpus) > 1 and layers else (),
        (note[0].upper() + note[1:],) if less else (), found or window, needed <= room,
    )  # fmt: skip
