"""Checks of requests to the local engine and of its options, on the caller's thread.

Adds to :mod:`srbwriter.engine.checks` how llama.cpp reads settings, and the engine's options.
"""

from __future__ import annotations

import math
import os
import reprlib
from typing import Any, get_args, get_type_hints

import msgspec

from .checks import RequestChecks, check_type
from .kv_cache import WHOLE_TYPES
from .limits import check_range
from .model import Model
from .native.context import CACHE_TYPES, MOST_THREADS
from .sampling import check_for
from .siblings import check_together
from .types import MAX_SEQUENCES, EngineOptions, InvalidRequest, Request, Sampling

_MOST = 2**31 - 1  # llama.cpp counts tokens and layers in 32 bits
_MOST_BYTES = 1 << 60
_MOST_OPTIONS = {
    "host_bytes": _MOST_BYTES, "disk_bytes": _MOST_BYTES,
    "max_branches": MAX_SEQUENCES, "max_sequences": MAX_SEQUENCES,
}  # fmt: skip
_THREADS = ("threads", "threads_batch")
_THREADS_EACH = 4  # for each processor: more of them wait for each other, and nothing is gained
_FEW_THREADS = 16  # accepted on every machine
_LEAST_OPTIONS = {
    "n_ctx": 1, "n_batch": 1, "n_ubatch": 1, "threads": 1, "threads_batch": 1,
    "gpu_layers": -1, "main_gpu": 0, "max_branches": 1, "max_sequences": 1,
    "logits_rows": 1, "nice": 0, "host_bytes": 0, "disk_bytes": 0,
}  # fmt: skip
_MOST_SPLITS = 128  # devices llama.cpp knows at most


class LocalChecks(RequestChecks):
    """Checks of what a model in this process is asked."""

    def __init__(self, model: Model, max_branches: int) -> None:
        super().__init__(model.n_vocab, max_branches)
        self._model = model

    def check_sampling(self, sampling: Any, request: Request) -> None:
        check_sampling(sampling, self._model)
        check_together(request.siblings, sampling)


def check_sampling(sampling: Any, model: Model) -> None:
    """Raise InvalidRequest for settings that this model cannot sample by."""
    check_type("sampling", sampling, Sampling)
    check_for(sampling, model)
    try:
        hash(sampling)  # branches that sample alike are found by it
    except TypeError:
        raise InvalidRequest("sampling", "its sequences must be tuples") from None


def _check_types(options: EngineOptions) -> None:
    """Raise InvalidRequest for an option of another type than its field has, or none of its choices."""
    hints = get_type_hints(EngineOptions)
    choices = {name: get_args(hints[name]) for name in ("numa", "flash_attn", "pooling")}
    choices |= dict.fromkeys(("cache_type_k", "cache_type_v"), tuple(CACHE_TYPES))
    for name, known in choices.items():
        value = getattr(options, name)
        if value not in known:
            raise InvalidRequest(name, f"{value!r} is not one of {', '.join(filter(None, known))}")
    for name, kind in hints.items():
        value = getattr(options, name)
        try:
            msgspec.convert(msgspec.to_builtins(value, enc_hook=os.fspath), kind)
        except (msgspec.ValidationError, TypeError) as error:
            raise InvalidRequest(name, f"{reprlib.repr(value)} is of the wrong type: {error}") from None


def check_options(options: EngineOptions) -> None:
    """Raise InvalidRequest for options that llama.cpp would end the process over, or misread."""
    _check_types(options)
    for name, least in _LEAST_OPTIONS.items():
        value = getattr(options, name)
        if value is not None:
            check_range(name, value, least, _MOST_OPTIONS.get(name, _MOST))
    processors = os.cpu_count() or 1
    most = min(max(_THREADS_EACH * processors, _FEW_THREADS), MOST_THREADS)
    for name in _THREADS:
        value = getattr(options, name)
        if value is not None and value > most:
            flag = "--" + name.replace("_", "-")
            raise InvalidRequest(
                name,
                f"{value} is not in 1 … {most}, as this machine has {processors} processors; leave out "
                f"{flag} to use as many as are fastest",
            )
    if options.flash_attn == "off" and options.cache_type_v not in WHOLE_TYPES:
        raise InvalidRequest(
            "cache_type_v",
            f"{options.cache_type_v} needs flash attention: give --cache-type-v f16, or leave out "
            "--flash-attn off",
        )
    if len(options.tensor_split) > _MOST_SPLITS:
        raise InvalidRequest("tensor_split", f"at most {_MOST_SPLITS} devices are possible")
    if not all(map(math.isfinite, options.tensor_split)):
        raise InvalidRequest("tensor_split", "each share must be a finite number")
    if not options.step_seconds > 0.0:
        raise InvalidRequest("step_seconds", "it must be more than 0")
