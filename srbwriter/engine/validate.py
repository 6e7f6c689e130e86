"""Checks of requests to the local engine and of its options, on the caller's thread.

Adds to :mod:`srbwriter.engine.checks` how llama.cpp reads settings, and the engine's options.
"""

from __future__ import annotations

import math
import os
from typing import Any

import msgspec

from .checks import RequestChecks, check_type
from .fields import check_fields
from .kv_cache import WHOLE_TYPES
from .model import Model
from .native.context import MOST_THREADS
from .sampling import check_for
from .siblings import check_together
from .types import EngineOptions, InvalidRequest, Request, Sampling

_THREADS = ("threads", "threads_batch")
_THREADS_EACH = 4  # for each processor: more of them wait for each other, and nothing is gained
_FEW_THREADS = 16  # accepted on every machine


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


def check_options(options: EngineOptions) -> None:
    """Raise InvalidRequest for options that llama.cpp would end the process over, or misread."""
    try:
        check_fields(options, msgspec.to_builtins(options, enc_hook=os.fspath))
    except TypeError as error:
        raise InvalidRequest("options", str(error)) from None
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
    if not all(map(math.isfinite, options.tensor_split)):
        raise InvalidRequest("tensor_split", "each share must be a finite number")
