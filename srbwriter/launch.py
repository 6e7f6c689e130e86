"""From settings to engine: the model, its options, and the defaults of requests.

It connects the faces with the engine and the model files, so that every face reads a setting in the same way.
It loads no native library before an engine is loaded and no HTTP client before a download, and imports no
story, no screen and no server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, get_args

from srbwriter import paths
from srbwriter.config import ConfigError, Key, Setting, Settings, keys
from srbwriter.config.kinds import INTEGER, NAMES, NUMBER, SWITCH, TEXT, TEXTS, Kind, one_of
from srbwriter.config.settings import Source
from srbwriter.engine.cores import count_cores
from srbwriter.engine.devices import Device, gpus
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.parameters import OF_SAMPLING, OF_STOP, Parameter
from srbwriter.engine.types import EngineOptions, ModelInfo, Sampling, Stop, Together
from srbwriter.engine.window import window_and_cells

if TYPE_CHECKING:
    from threading import Event

    from srbwriter.engine.capabilities import Capabilities
    from srbwriter.engine.remote.options import RemoteOptions
    from srbwriter.models.files import Header
    from srbwriter.models.fit import Gpu, Need, Placement, Run
    from srbwriter.models.recommended import Machine


T = TypeVar("T")


def request_keys() -> tuple[Key[Any], ...]:
    """Rows for the table of keys, made from the fields of requests.

    Parameters without a flag make sense in a single request only, and get no row.
    """
    return tuple(
        Key[Any](key_name(p), _kind(p), p.default, _phrase(p.help), p.flags, p.minimum, p.maximum)
        for p in _configurable()
    )


_SECTIONS = {"stop": "generation", "sampling": "sampling"}
_KINDS: dict[str, Kind[Any]] = {
    "int": INTEGER, "float": NUMBER, "bool": SWITCH, "text": TEXT, "texts": TEXTS
}  # fmt: skip
_OWN = {keys.MAX_TOKENS.name, "sampling.seed"}
"""Parameters with rows of their own in the table of keys, because the program's default differs."""


def _configurable() -> list[Parameter]:
    return [
        p for p in (*OF_STOP, *OF_SAMPLING)
        if p.flags and (p.kind in _KINDS or p.choices) and key_name(p) not in _OWN
    ]  # fmt: skip


def key_name(parameter: Parameter) -> str:
    """Name of the setting that says what ``parameter`` is, whether or not there is such a row."""
    section = "instruments" if parameter.group == "variety" else _SECTIONS.get(parameter.record, "")
    return f"{section}.{parameter.name}"


def _kind(parameter: Parameter) -> Kind[Any]:
    if parameter.field == "samplers":
        return NAMES  # one flag for the whole order, as llama-server takes it
    return one_of(*cast(Any, parameter.choices)) if parameter.choices else _KINDS[parameter.kind]


def _phrase(sentence: str) -> str:
    """A help text in the form that the table of keys has: no capital, no full stop."""
    begun = sentence[0].lower() + sentence[1:] if sentence[1].islower() else sentence
    return begun.rstrip(".")


def model_path(settings: Settings) -> Path:
    """Return the model file to load: the one named, also one of a folder of models, or the bundled one."""
    named = settings[keys.MODEL]
    if named is None:
        from srbwriter.demo import bundled_model

        return bundled_model()
    if not named.exists():
        from srbwriter.models.files import ModelsError
        from srbwriter.models.local import find

        with suppress(ModelsError):  # else the load says so
            return find(named.name)  # a settings file puts its folder before a mere name
    return named


class Values(Protocol):
    """An object with the values of settings: those of this run, or those changed since."""

    def __getitem__(self, key: Key[T], /) -> T: ...


def model_need(settings: Values, header: Header | None, size: int) -> Need:
    """Return the memory that a model of ``size`` bytes takes with these settings."""
    from srbwriter.models.fit import need

    options = engine_options(settings)
    cells = window_and_cells(options.n_ctx, header.context if header else 0)[1]
    return need(header, size, _run(options, cells))


def _run(options: EngineOptions, cells: int) -> Run:
    """Return how a model is run, as far as its memory goes."""
    from srbwriter.models.fit import DEFAULT_BATCH, Run

    value_type, flash = options.cache_type_v, options.flash_attn
    # as the engine computes on a processor; on a GPU less memory is needed
    attention = flash == "on" or (flash == "auto" and value_type not in ("f32", "f16", "bf16"))
    batch = min(options.n_ubatch or DEFAULT_BATCH, options.n_batch or DEFAULT_BATCH)
    return Run(cells, options.cache_type_k, value_type, attention, batch)


def fit_options(
    path: str | os.PathLike[str], options: EngineOptions
) -> tuple[EngineOptions, tuple[str, ...]]:  # fmt: skip
    """Fit layers on GPUs and the context to the memory that is free now; with what to tell the writer.

    What ``options`` name is left as it is. A file that cannot be read is left to the load, which says why.
    """
    from srbwriter.engine.native.devices import read_devices

    devices = read_devices()
    if (placement := placement_of(Path(path), options, devices)) is None:
        return options, ()
    fitted = replace(options, n_ctx=placement.n_ctx if options.n_ctx is None else options.n_ctx)
    if gpus(devices) and options.gpu_layers is None:
        split = options.tensor_split or placement.split
        fitted = replace(fitted, gpu_layers=placement.gpu_layers, tensor_split=split)
    return fitted, placement.notes


def placement_of(path: Path, options: EngineOptions, devices: Sequence[Device]) -> Placement | None:
    """Return how a model would run on these devices with the memory that is free now; None for no model."""
    from srbwriter.models import fit
    from srbwriter.models.local import look_at

    model = look_at(path)
    if model.header is None:
        return None
    window, cells = window_and_cells(None, model.header.context)
    return fit.place(
        model.header, model.size, _run(options, cells), _gpus(devices), fit.free_memory(), window=window,
        gpu_layers=options.gpu_layers, n_ctx=options.n_ctx,
    )  # fmt: skip


def _gpus(devices: Sequence[Device]) -> list[Gpu]:
    from srbwriter.models.fit import Gpu

    return [Gpu(device.product, device.free, device.shared) for device in gpus(devices)]


def this_machine(settings: Values) -> Machine:
    """Return what models have to get along with on this machine."""
    from srbwriter.engine.native.devices import read_devices
    from srbwriter.models.fit import memory
    from srbwriter.models.recommended import Machine

    devices = [] if settings[keys.GPU_LAYERS] == 0 else read_devices()
    return Machine(memory(), tuple(_gpus(devices)), settings[keys.THREADS] or count_cores())


_SAME: tuple[Key[Any], ...] = (
    keys.THREADS, keys.THREADS_BATCH, keys.GPU_LAYERS, keys.MAIN_GPU, keys.TENSOR_SPLIT, keys.MLOCK,
    keys.MMAP, keys.FLASH_ATTN, keys.CACHE_TYPE_K, keys.CACHE_TYPE_V,
)  # fmt: skip
"""Settings that have the name of their option."""


def engine_options(settings: Values) -> EngineOptions:
    """Return how the model is to be run."""
    cache_ram = settings[keys.CACHE_RAM]
    return EngineOptions(
        **{key.name.removeprefix("model."): settings[key] for key in _SAME},
        n_ctx=settings[keys.CTX_SIZE],
        n_batch=settings[keys.BATCH_SIZE],
        n_ubatch=settings[keys.UBATCH_SIZE],
        host_bytes=None if cache_ram is None else cache_ram << 20,
        disk_dir=str(paths.cache_dir() / "states") if settings[keys.CACHE_DISK] else None,
        disk_bytes=settings[keys.CACHE_DISK] << 20,
        seed=settings[keys.SEED],
        max_branches=settings[keys.MAX_N],
        lora=scaled_files(settings[keys.LORA]),
        pooling=settings[keys.POOLING] or "",
    )


def scaled_files(entries: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return files and how much of each, from ``FILE`` or ``FILE:SCALE``."""
    scaled = [
        None if paths.expanded(entry).exists() else re.fullmatch(r"(.+):([-+]?\d*\.?\d+)", entry)
        for entry in entries
    ]
    return tuple((m[1], float(m[2])) if m else (e, 1.0) for m, e in zip(scaled, entries, strict=True))


def suit_model(settings: Settings, path: Path | None = None, *, in_app: bool = False) -> Settings:
    """Return the settings with what suits a model, where they are not set.

    It is the model at ``path``, by default the one that the settings name. ``in_app`` also
    writes past the end where the model ends its stories too soon.
    """
    from srbwriter.models.suited import ENDLESS, suited_to_file

    found: dict[str, Setting] = {}
    if path is not None or not elsewhere(settings):
        for name, value in suited_to_file(path or model_path(settings)).items():
            if in_app or name != ENDLESS:
                found[name] = Setting(value, "of this model")
    return settings.with_defaults(found)


def fields_of_model(settings: Settings) -> frozenset[str]:
    """Return the fields of records whose value suits the model and is not the program's default."""
    return frozenset(
        parameter.field
        for parameter in _configurable()
        for key in [settings.table[f"{_SECTIONS[parameter.record]}.{parameter.name}"]]
        if settings.source(key) == "of this model" and settings[key] != key.default
    )


def branches(settings: Settings) -> int:
    """How many branches are written at once: no more than may be live."""
    return min(settings[keys.N], settings[keys.MAX_N])


def sampling(settings: Settings) -> Sampling:
    """How branches choose their tokens unless a request says otherwise."""
    return Sampling(**_fields(settings, "sampling"))


def draw_together(siblings: Together, samplings: Sequence[Sampling], can: Capabilities) -> dict[str, Any]:
    """Return the fields of a request for branches that differ, as far as the engine and samplings permit."""
    steered = any(s.mirostat or s.adaptive_target >= 0 for s in samplings)
    together = siblings != "independent" and not steered and can.has("siblings")
    return {"siblings": siblings} if together else {}


def stop(settings: Settings) -> Stop:
    """When branches end unless a request says otherwise."""
    limit = settings[keys.MAX_TOKENS]
    return Stop(max_tokens=None if limit < 0 else limit, **_fields(settings, "stop"))


def _fields(settings: Settings, record: str) -> dict[str, Any]:
    values = settings.section(_SECTIONS[record])
    return {p.field: values[p.name] for p in _configurable() if p.record == record}


def elsewhere(settings: Settings) -> bool:
    """Whether the model runs elsewhere, and is none of this machine's files: what was said nearer wins."""
    if not settings[keys.CONNECT] or settings[keys.MODEL] is None:
        return bool(settings[keys.CONNECT])
    order = get_args(Source)
    return order.index(settings.source(keys.CONNECT)) <= order.index(settings.source(keys.MODEL))


def remote_options(settings: Settings, notify: Callable[[str], None] | None = None) -> RemoteOptions:
    """Return the options of a remote engine; ``notify`` is called for each failed attempt.

    Raises ConfigError for settings that a remote engine does not take.
    """
    from srbwriter.engine.remote.options import RemoteOptions

    if settings[keys.LORA] and settings.source(keys.LORA) in ("flag", "environment"):  # given for this start
        raise ConfigError(
            f"{keys.LORA.name} ({keys.LORA.flags[0]}) is for a model that runs here, and with --connect it "
            "runs elsewhere: leave it out, and give it to the server there"
        )
    return RemoteOptions(
        url=settings[keys.CONNECT] or "",
        key=settings[keys.CONNECT_KEY] or "",
        dialect=settings[keys.DIALECT],
        model=settings[keys.CONNECT_MODEL] or "",
        n_ctx=settings[keys.CTX_SIZE],
        max_branches=settings[keys.MAX_N],
        seed=settings[keys.SEED],
        verify=settings[keys.CONNECT_VERIFY],
        notify=notify,
    )


def loader(
    settings: Settings, nice: int = 0, notify: Callable[[str], None] | None = None, after: Event | None = None
) -> EngineLoader:  # fmt: skip
    """Return a loader of the engine in the settings, ready to load in the background.

    ``nice`` is as in its options; ``notify`` is called when a size is reduced for lack of memory, and for
    each failed attempt to reach a remote engine. A local load waits for ``after``, a second at most.
    """
    if elsewhere(settings):
        from srbwriter.engine.remote.options import RemoteLoader

        return RemoteLoader(remote_options(settings, notify))

    def fit(path: str | os.PathLike[str], options: EngineOptions) -> tuple[EngineOptions, tuple[str, ...]]:
        if after is not None:
            after.wait(1.0)
        return fit_options(path, options)

    options = replace(engine_options(settings), nice=nice)
    return EngineLoader(model_path(settings), options, fit=fit, notify=notify)


def model_name(info: ModelInfo) -> str:
    """Return what a model is called: as its file is, or by what it is called elsewhere."""
    return Path(info.path).stem if Path(info.path).exists() else info.name


def model_hint(settings: Settings) -> str | None:
    """Say in one line how to use another model than the bundled one."""
    if settings[keys.MODEL] is not None or elsewhere(settings):
        return None
    return "this is the small bundled model; for a bigger one, -m FILE or `srbwriter models recommended`"
