"""How a model is run: a check of the options, how large a context it gets, and the context itself."""

from __future__ import annotations

import logging
import math
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from .cores import count_cores
from .devices import device_words
from .fields import check_fields
from .model import Model
from .model_files import read_contents
from .native.context import Context, has_gpu, set_adapters
from .native.devices import read_devices
from .threads import Threads
from .types import EngineOptions, InvalidRequest, ModelError
from .window import window_and_cells

log = logging.getLogger(__name__)

CPU_BATCH, GPU_BATCH = 512, 2048
RECURRENT_SEQUENCES = 16  # each of them costs a whole state
MOST_HOST_BYTES = 8 << 30
_WHOLE_TYPES = frozenset({"f32", "f16", "bf16"})  # of a cache, that keep each number by itself
_BLOCK = 32  # numbers that each other type keeps together (``QK8_0``, ``QK4_0`` … in ggml-common.h)
_GROUP = Path("/sys/fs/cgroup")


def check_options(options: EngineOptions) -> None:
    """Raise InvalidRequest for options that llama.cpp would end the process over, or misread."""
    try:
        check_fields(options, msgspec.to_builtins(options, enc_hook=os.fspath))
    except TypeError as error:
        raise InvalidRequest("options", str(error)) from None
    if options.flash_attn == "off" and options.cache_type_v not in _WHOLE_TYPES:
        raise InvalidRequest(
            "cache_type_v",
            f"{options.cache_type_v} needs flash attention: give --cache-type-v f16, or leave out "
            "--flash-attn off",
        )
    if not all(map(math.isfinite, options.tensor_split)):
        raise InvalidRequest("tensor_split", "each share must be a finite number")


def check_cache_types(path: Path, options: EngineOptions) -> None:
    """Raise ModelError for a type of KV cache whose blocks do not divide a head of the model.

    llama.cpp ends the process while it makes such a context, or computes NaN. As in its ``load_hparams`` a
    head is what the header says, else the embedding shared out among the heads.
    """
    header, _ = read_contents(path)
    values = {key.partition(".")[2]: value for key, value in header.items()}  # without the architecture

    def number(key: str) -> int:
        value = values.get(key, 0)
        return value if type(value) is int else 0

    for which, kind in (("k", options.cache_type_k), ("v", options.cache_type_v)):
        name = f"attention.{'key' if which == 'k' else 'value'}_length"
        own = number(name) or number("embedding_length") // max(number("attention.head_count"), 1)
        for size in () if kind in _WHOLE_TYPES else (own, number(f"{name}_swa")):
            if size % _BLOCK:
                raise ModelError(
                    str(path),
                    f"cache_type_{which} {kind} keeps {_BLOCK} numbers together, and a head of this model "
                    f"has {size}, which {_BLOCK} does not divide",
                    f"give --cache-type-{which} f16",
                )


def uses_gpu(options: EngineOptions) -> bool:
    return has_gpu() and options.gpu_layers != 0


def where_it_runs(options: EngineOptions, layers: int) -> str:
    """Return in words where a model of so many layers runs with these options."""
    return device_words(read_devices() if uses_gpu(options) else [], options.gpu_layers, layers)


def threads_of(options: EngineOptions) -> Threads | None:
    """Threads that give way to other programs; None where their number is given, or hardly matters."""
    return None if options.threads or uses_gpu(options) else Threads(count_cores())


def sampling_cores(options: EngineOptions) -> int:
    """Return on how many cores tokens may be sampled: those that the decode leaves idle meanwhile.

    Beside a GPU that is all of them, since ``threads`` is often 1 where no layer is computed here.
    """
    return count_cores() if uses_gpu(options) else _threads(options)


def _threads(options: EngineOptions) -> int:
    return options.threads or count_cores()


def open_context(model: Model, options: EngineOptions) -> tuple[Context, int]:
    """The context for a model, and how many positions one branch may use in it. Raises ModelError."""
    window, cells = window_and_cells(options.n_ctx, model.n_ctx_train)
    if options.n_ctx and model.n_ctx_train and window > model.n_ctx_train:
        log.warning("%s was trained for %d tokens, not %d", model.name, model.n_ctx_train, window)
    if model.partial_removal:
        sequences = max(options.max_sequences or 2 * options.max_branches, options.max_branches)
    else:
        sequences = options.max_sequences or min(options.max_branches + 2, RECURRENT_SEQUENCES)
    threads = _threads(options)
    batch = options.n_batch or (GPU_BATCH if uses_gpu(options) else CPU_BATCH)
    context = Context(
        model.pointer, cells=cells, sequences=sequences, batch=batch, ubatch=options.n_ubatch or CPU_BATCH,
        threads=threads, threads_batch=options.threads_batch or threads, options=options,
        path=str(model.path),
    )  # fmt: skip
    set_adapters(context.pointer, model.adapters)
    return context, min(window, context.cells)


def host_budget(asked: int | None) -> int:
    """Return the bytes of host memory for states: ``asked``, else a quarter of free memory, at most 8 GiB."""
    if asked is not None:
        return asked
    import psutil  # here, since it takes long to import

    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):  # no control group, or "max"
        most, used = (int((_GROUP / f"memory.{name}").read_text("ascii")) for name in ("max", "current"))
        free = min(free, max(most - used, 0))
    return min(free // 4, MOST_HOST_BYTES)
