"""From settings to engine: which model, run how, asked for what.

Stands between the faces and the engine so that every face reads a setting in the same way. It loads no
native library before an engine is wanted, and knows no story, no screen and no HTTP.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from srbwriter import paths
from srbwriter.config import ConfigError, Key, Settings, keys
from srbwriter.config.kinds import INTEGER, NAMES, NUMBER, SWITCH, TEXT, TEXTS, Kind, one_of
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import EngineOptions, Sampling, Stop


def request_keys() -> tuple[Key[Any], ...]:
    """Rows for the table of keys, made from the engine's own table of parameters.

    Parameters without a flag make sense in a single request only, and get no row.
    """
    return tuple(
        Key[Any](
            name=f"{_SECTIONS[parameter.record]}.{parameter.name}",
            kind=_kind(parameter),
            default=parameter.default,
            help=_phrase(parameter.help),
            flags=parameter.flags,
            minimum=parameter.minimum,
            maximum=parameter.maximum,
        )
        for parameter in _configurable()
    )


_SECTIONS = {"stop": "generation", "sampling": "sampling"}
_KINDS: dict[str, Kind[Any]] = {
    "int": INTEGER, "float": NUMBER, "bool": SWITCH, "text": TEXT, "texts": TEXTS
}  # fmt: skip
_OWN = {keys.MAX_TOKENS.name, "sampling.seed"}
"""Parameters with rows of their own in the table of keys, because the program's default differs."""


def _configurable() -> list[Parameter]:
    return [
        parameter
        for parameter in PARAMETERS
        if parameter.flags
        and (parameter.kind in _KINDS or parameter.choices)
        and f"{_SECTIONS.get(parameter.record)}.{parameter.name}" not in _OWN
        and parameter.record in _SECTIONS
    ]


def _kind(parameter: Parameter) -> Kind[Any]:
    if parameter.field == "samplers":
        return NAMES  # one flag for the whole order, as llama-server takes it
    return one_of(*cast(Any, parameter.choices)) if parameter.choices else _KINDS[parameter.kind]


def _phrase(sentence: str) -> str:
    """A help text in the form that the table of keys has: no capital, no full stop."""
    begun = sentence[0].lower() + sentence[1:] if sentence[1].islower() else sentence
    return begun.rstrip(".")


def model_path(settings: Settings) -> Path:
    """The model file to load: the one named, one of that name in the models folder, or the bundled one."""
    named = settings[keys.MODEL]
    if named is None:
        from srbwriter.demo import bundled_model

        return bundled_model()
    shelved = paths.models_dir() / named.name
    return named if named.exists() or not shelved.exists() else shelved


def engine_options(settings: Settings) -> EngineOptions:
    """How the model is to be run."""
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


def branches(settings: Settings) -> int:
    """How many branches are written at once. Raises ConfigError for more than may be live."""
    n, most = settings[keys.N], settings[keys.MAX_N]
    if n > most and settings.source(keys.N) != "default":
        raise ConfigError(f"{keys.N.name} = {n} is above {keys.MAX_N.name} = {most}")
    return min(n, most)


def sampling(settings: Settings) -> Sampling:
    """How branches choose their tokens unless a request says otherwise."""
    return Sampling(**_fields(settings, "sampling"))


def stop(settings: Settings) -> Stop:
    """When branches end unless a request says otherwise."""
    return Stop(max_tokens=settings[keys.MAX_TOKENS], **_fields(settings, "stop"))


def _fields(settings: Settings, record: str) -> dict[str, Any]:
    values = settings.section(_SECTIONS[record])
    return {p.field: values[p.name] for p in _configurable() if p.record == record}


def loader(settings: Settings) -> EngineLoader:
    """The engine that was asked for, ready to be loaded in the background."""
    return EngineLoader(model_path(settings), engine_options(settings))


def model_hint(settings: Settings) -> str | None:
    """How to use another model, in one line for whoever writes with the bundled one."""
    if settings[keys.MODEL] is not None:
        return None
    return "writing with the small bundled model; -m FILE takes any other in GGUF format"
