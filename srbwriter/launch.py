"""From settings to engine: which model, run how, asked for what.

Stands between the faces and the engine so that every face reads a setting in the same way. It loads no
native library before an engine is wanted, and knows no story, no screen and no HTTP.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import paths
from srbwriter.config import Settings, Table, keys, load

if TYPE_CHECKING:
    from srbwriter.engine import Engine
    from srbwriter.engine.types import EngineOptions, Sampling, Stop


def table() -> Table:
    """Every key of the program: the table of configuration keys and the engine's sampling parameters."""
    return Table(keys.KEYS)


def settings(table: Table, flags: Mapping[str, Any], file: Path | None = None) -> Settings:
    """The settings that hold in this process. Raises ConfigError."""
    return load(table, flags, os.environ, file)


def model_path(settings: Settings) -> Path:
    """The model file to load: the one named, one of that name in the models folder, or the bundled one."""
    named = settings[keys.MODEL]
    if named is None:
        from srbwriter.demo import bundled_model

        return bundled_model()
    shelved = paths.models_dir() / named
    return named if named.exists() or not shelved.exists() else shelved


def engine_options(settings: Settings) -> EngineOptions:
    """How the model is to be run."""
    from srbwriter.engine.types import EngineOptions

    return EngineOptions(
        n_ctx=settings[keys.CTX_SIZE],
        n_batch=settings[keys.BATCH_SIZE],
        n_ubatch=settings[keys.UBATCH_SIZE],
        threads=settings[keys.THREADS],
        threads_batch=settings[keys.THREADS_BATCH],
        gpu_layers=settings[keys.GPU_LAYERS],
        main_gpu=settings[keys.MAIN_GPU],
        tensor_split=settings[keys.TENSOR_SPLIT],
        mlock=settings[keys.MLOCK],
        mmap=settings[keys.MMAP],
        numa=settings[keys.NUMA] or "",
        flash_attn=settings[keys.FLASH_ATTN],
        cache_type_k=settings[keys.CACHE_TYPE_K],
        cache_type_v=settings[keys.CACHE_TYPE_V],
        seed=settings[keys.SEED],
        max_branches=settings[keys.MAX_N],
    )


def sampling(settings: Settings) -> Sampling:
    """How branches choose their tokens unless a request says otherwise."""
    from srbwriter.engine.types import Sampling

    return Sampling(**settings.section("sampling"))


def stop(settings: Settings) -> Stop:
    """When branches end unless a request says otherwise."""
    from srbwriter.engine.types import Stop

    return Stop(
        max_tokens=settings[keys.MAX_TOKENS],
        strings=settings[keys.STOP],
        boundary=settings[keys.UNTIL],
    )


def engine(settings: Settings, on_progress: Callable[[float], object] | None = None) -> Engine:
    """Load the model and start its engine.

    Args:
        settings: what to load and how.
        on_progress: told the share loaded, 0.0 to 1.0.

    Raises:
        ModelError: the file is missing, is no model, or cannot be run here.
    """
    from srbwriter.engine import Engine

    return Engine.load(model_path(settings), engine_options(settings), on_progress=on_progress)
