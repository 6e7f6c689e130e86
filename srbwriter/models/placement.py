"""Where a model runs: how many of its layers a GPU takes, and how large a context the memory allows.

A fixed rule over sizes. It knows headers and free memory, and neither llama.cpp nor a real device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from srbwriter.models.files import Header
from srbwriter.models.fit import Run, cache_bytes, compute_bytes, size_words

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
class Wish:
    """How a model is to be run. None leaves a number to the rule; a given number is never changed.

    ``window`` is the context size where none was given; ``run`` are the options for it, and ``gpu_flash`` is
    whether a GPU computes with flash attention. ``split`` is the share of each GPU.
    """

    window: int
    run: Run
    gpu_layers: int | None = None
    n_ctx: int | None = None
    split: tuple[float, ...] = ()
    gpu_flash: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """How a model is run on this machine.

    ``n_ctx`` is None where the context is what it is without a number. ``layers`` counts all of them, the
    output layer included, as llama.cpp does. ``notes`` tell the writer what was made smaller for lack of
    memory, and the cure.
    """

    gpu_layers: int
    layers: int
    n_ctx: int | None
    split: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    window: int = 0  # tokens of context
    fits: bool = True  # False: the machine's own memory does not hold it, and it will be slow


def place(header: Header, weights: int, wish: Wish, gpus: Sequence[Gpu], free: int) -> Placement:
    """Fit a model of ``weights`` bytes to the GPUs and to ``free`` bytes of the machine's memory.

    Each GPU takes as many whole layers as fit it with the whole context. Then the context is made so small
    that the rest fits the machine's memory.
    """
    return _Fitting(header, weights, wish, gpus, free).placement()


class _Fitting:
    """One model, with what was wished, on one machine."""

    def __init__(self, header: Header, weights: int, wish: Wish, gpus: Sequence[Gpu], free: int) -> None:
        self._header, self._weights, self._wish, self._gpus, self._free = header, weights, wish, gpus, free
        self._blocks = max(header.layers, 1)
        self._all = self._blocks + 1
        self._room = int(free * HOST_SHARE)

    def placement(self) -> Placement:
        wish = self._wish
        fitting, split = self._layers(wish.n_ctx or wish.run.cells)
        layers = fitting if wish.gpu_layers is None else wish.gpu_layers
        if layers < 0 or layers > self._all:
            layers = self._all
        if not self._gpus:
            layers = 0
        n_ctx = wish.n_ctx or self._context(layers)
        notes = [*self._gpu_notes(layers, fitting), *self._context_notes(layers, n_ctx)]
        fits = self._host_bytes(layers, n_ctx or wish.run.cells) <= self._room
        mine = wish.gpu_layers is None and not wish.split and len(self._gpus) > 1 and layers > 0
        return Placement(
            layers, self._all, n_ctx, split if mine else wish.split, tuple(notes), n_ctx or wish.window, fits
        )

    # ---- layers

    def _capacities(self, cells: int) -> list[int]:
        """Return how many layers fit each GPU with a cache of ``cells`` tokens."""
        output = self._output_bytes()
        # Models with several experts may begin with layers that have none, and are smaller than the others.
        blocks = max(self._blocks - self._header.dense_layers, 1)
        cost = -(-(self._weights - output) // blocks) + self._widest_cache(cells)
        fixed = GPU_SPARE + output + self._compute(cells, on_gpu=True)
        return [max(0, gpu.free - fixed) // max(cost, 1) for gpu in self._gpus]

    def _layers(self, cells: int) -> tuple[int, tuple[float, ...]]:
        """Return the most layers that fit the GPUs, and how many of them each gets."""
        most = self._capacities(cells)
        if split := self._wish.split:
            fitting = (n for n in range(self._all, 0, -1) if self._deal(n, split, most))
            return next(fitting, 0), split
        count = min(sum(most), self._all)
        total = max(sum(most), 1)
        dealt = [count * one // total for one in most]
        for index, one in enumerate(most):  # what rounding down has left over
            dealt[index] += min(one - dealt[index], count - sum(dealt))
        return count, tuple(map(float, dealt))

    def _deal(self, count: int, split: Sequence[float], most: Sequence[int]) -> bool:
        """Whether each GPU can hold what llama.cpp gives it of ``count`` layers, dealt by shares."""
        shares = [*split, *[0.0] * len(most)][: len(most)]
        if (total := sum(shares)) <= 0:
            return False
        bounds = [sum_ / total for sum_ in accumulate(shares)]
        given = [0] * len(most)
        for layer in range(count):
            given[min(bisect_right(bounds, layer / count), len(most) - 1)] += 1
        return all(one <= limit for one, limit in zip(given, most, strict=True))

    def _output_bytes(self) -> int:
        return min(int(self._header.vocabulary * self._header.width * _OUTPUT_BITS / 8), self._weights)

    def _widest_cache(self, cells: int) -> int:
        """Return the bytes that the widest layer keeps of ``cells`` tokens."""
        widths = self._header.kv_widths
        return max(
            (cache_bytes([width], replace(self._wish.run, cells=cells)) for width in widths), default=0
        )

    def _compute(self, cells: int, *, on_gpu: bool) -> int:
        flash = self._wish.gpu_flash if on_gpu else self._wish.run.flash_attention
        return compute_bytes(self._header, replace(self._wish.run, cells=cells, flash_attention=flash))

    # ---- context

    def _host_bytes(self, layers: int, cells: int) -> int:
        """Return what the machine's own memory has to hold when ``layers`` run on GPUs."""
        run = replace(self._wish.run, cells=cells)
        compute = self._compute(cells, on_gpu=layers > 0)
        if layers and any(gpu.shared for gpu in self._gpus):
            return self._weights + cache_bytes(self._header.kv_widths, run) + compute
        if layers == self._all:
            return compute
        left = max(self._blocks - layers, 0)
        weights = self._weights * (self._all - layers) // self._all
        return weights + cache_bytes(self._header.kv_widths[:left], run) + compute

    def _fits(self, layers: int, cells: int) -> bool:
        if self._host_bytes(layers, cells) > self._room:
            return False
        if self._wish.gpu_layers is None or not layers:
            return True  # as many layers as fit with the whole context
        fitting, _ = self._layers(cells)
        return layers <= fitting

    def _context(self, layers: int) -> int | None:
        """Return the largest context that fits; None where that is what it is without a number."""
        if self._fits(layers, self._wish.run.cells):
            return None
        return next((n for n in self._smaller() if self._fits(layers, n)), self._least)

    @property
    def _least(self) -> int:
        return min(self._wish.window, LEAST_WINDOW)

    def _smaller(self) -> Iterator[int]:
        """Contexts, each with as many cells as tokens, from the usual one to the smallest."""
        yield self._wish.window
        yield from range((self._wish.window - 1) // _STEP * _STEP, self._least - 1, -_STEP)

    # ---- words

    def _gpu_notes(self, layers: int, fitting: int) -> Iterator[str]:
        wish = self._wish
        if not self._gpus:
            return
        names, room = self._gpu_names(), self._gpu_words()
        if wish.gpu_layers is not None:
            if layers > fitting:
                yield (
                    f"--gpu-layers {layers} puts more on {names} than fits, which is about {fitting} of "
                    f"{self._all} layers: {room}. "
                    f"If the program ends, leave it out or give --gpu-layers {fitting}."
                )
            return
        if layers == self._all:
            return
        what = f"{layers} of {self._all} layers run on {names}, the others on the processor"
        if not layers:
            what = f"The model runs on the processor, because no layer of it fits {names}"
        yield f"{what}: {room}. Faster: {self._faster()}."

    def _faster(self) -> str:
        if self._wish.n_ctx is None:
            for tokens in self._smaller():
                if self._layers(tokens)[0] == self._all:
                    return f"--ctx-size {tokens}, with which all layers fit"
        return "a smaller quantisation of the model, or --cache-type-k q8_0 --cache-type-v q8_0"

    def _context_notes(self, layers: int, n_ctx: int | None) -> Iterator[str]:
        wish = self._wish
        if n_ctx is None:
            return
        free = f"{size_words(self._free)} of memory are free"
        if wish.n_ctx is None and n_ctx < wish.window:
            on_gpu = self._host_bytes(layers, wish.window) <= self._room
            yield (
                f"The context is {n_ctx} tokens instead of {wish.window}, because "
                f"{self._gpu_words() if on_gpu else free}. For more, close other programs, choose a smaller "
                f"quantisation of the model, or give --cache-type-k q8_0 --cache-type-v q8_0; "
                f"--ctx-size {wish.window} insists on it."
            )
        needed = self._host_bytes(layers, n_ctx)
        if needed > self._room:
            smaller = next((n for n in self._smaller() if n < n_ctx and self._fits(layers, n)), None)
            cure = f"give --ctx-size {smaller}" if smaller else "choose a smaller quantisation of the model"
            yield (
                f"The model needs {size_words(needed)} with a context of {n_ctx} tokens, and {free}: it will "
                f"be slow, or fail. Close other programs, or {cure}."
            )

    def _gpu_words(self) -> str:
        return f"{size_words(sum(gpu.free for gpu in self._gpus))} of {self._gpu_names()} are free"

    def _gpu_names(self) -> str:
        return " and ".join(gpu.name for gpu in self._gpus)
