"""From settings to engine: the model, its options, and the defaults of requests.

It connects the faces with the engine and the model files, so that every face reads a setting in the same way.
It loads no native library before an engine is loaded and no HTTP client before a download, and imports no
story, no screen and no server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, cast, get_args

from srbwriter import paths
from srbwriter.config import ConfigError, Key, Setting, Settings, Table, keys, remember
from srbwriter.config.kinds import INTEGER, NAMES, NUMBER, SWITCH, TEXT, TEXTS, Kind, one_of
from srbwriter.config.settings import Source
from srbwriter.engine.cores import count_cores
from srbwriter.engine.devices import Device, gpus
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.parameters import OF_SAMPLING, OF_STOP, Parameter
from srbwriter.engine.types import EngineOptions, ModelError, ModelInfo, Sampling, Stop, Together
from srbwriter.engine.window import window_and_cells

if TYPE_CHECKING:
    from srbwriter.engine.capabilities import Capabilities
    from srbwriter.engine.remote.options import RemoteOptions
    from srbwriter.models import Header, Machine, Need, Run, Wanted
    from srbwriter.models.fit import Gpu, Placement
    from srbwriter.models.pull import Progress


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


REMOTE_KEYS: tuple[Key[Any], ...] = (keys.HF_REPO, keys.MODEL_URL)
"""Settings that name a model of the net."""


def model_key(settings: Settings) -> Key[Any] | None:
    """Return the setting that says which model, if one does. Raises ConfigError for two in one place."""
    ranks = {
        key: get_args(Source).index(settings.source(key))
        for key in (keys.MODEL, *REMOTE_KEYS)
        if settings[key] is not None
    }
    nearest = [key for key, rank in ranks.items() if rank == min(ranks.values())]
    if len(nearest) > 1:
        names = " and ".join(key.name for key in nearest)
        raise ConfigError(f"{names} both say which model — give one of them")
    return nearest[0] if nearest else None


def model_path(settings: Settings) -> Path:
    """Return the model file to load: the one named, or fetched before, or the bundled one.

    Raises ModelError for one that is to be fetched first, see :func:`fetch_model`, and ConfigError.
    """
    key = model_key(settings)
    if key is None:
        from srbwriter.demo import bundled_model

        return bundled_model()
    if key is keys.MODEL:
        named = cast(Path, settings[keys.MODEL])
        if named.is_dir():
            return only_model(named)
        if not named.exists():
            from srbwriter.models import ModelsError, find

            with suppress(ModelsError):  # else see missing_model
                return find(named.name)  # a settings file puts its folder before a mere name
        return named
    if (file := _fetched(settings, key)) is None:
        named = str(settings[key])
        raise ModelError(named, "it is not on this machine yet", f"fetch it: srbwriter models pull {named}")
    return file


def remember_model(table: Table, file: Path | None) -> None:
    """Write with the model at ``file`` from the next start on, or with the bundled one. Raises OSError."""
    remember(table, {keys.MODEL: file, keys.HF_REPO: None, keys.MODEL_URL: None})


def missing_model(settings: Settings) -> ModelError | None:
    """Return an error for a model file that is named and not there: where it is named, and what to do."""
    if model_key(settings) is not keys.MODEL or (path := model_path(settings)).exists():
        return None
    place, cure = settings.place(keys.MODEL), "`srbwriter models` lists those there are"
    if settings.source(keys.MODEL) == "file":
        place = f"{keys.MODEL.name} in {place}"
    elif settings.source(keys.MODEL) == "remembered":
        place, cure = "`srbwriter models use`", "choose another with it, or `srbwriter models forget`"
    return ModelError(str(path), f"no such file, named by {place}", cure)


def only_model(folder: Path) -> Path:
    """Return the one model in a folder; its first file where it is split. Raises ModelError."""
    from srbwriter.models import is_model, parts_of

    files = sorted((file for file in folder.iterdir() if is_model(file.name)), reverse=True)
    found = sorted({parts_of(file.name).stem: file for file in files}.values())
    if not found:
        raise ModelError(str(folder), "no model is in this folder", "name a folder with a GGUF file")
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:8])
        raise ModelError(str(folder), f"several models are in this folder: {names}", "name one of the files")
    return found[0]


def _fetched(settings: Settings, key: Key[Any]) -> Path | None:
    """Return the path of a downloaded model; None if it is not on this machine. Raises ModelError."""
    from srbwriter.models import ModelsError, pulled, url_file

    try:
        if key is keys.HF_REPO:
            return pulled(_wanted(settings))
        file = url_file(paths.models_dir(), str(settings[keys.MODEL_URL]))
        return file if file.exists() else None
    except ModelsError as error:
        raise ModelError(str(settings[key]), str(error), "correct it") from error


def fetch_model(settings: Settings, progress: Progress) -> None:
    """Bring the model that the settings name, unless it is here or is none of the net.

    Raises ModelsError.
    """
    key = model_key(settings)
    if key is None or key is keys.MODEL or elsewhere(settings) or _fetched(settings, key) is not None:
        return
    from srbwriter.models import pull

    if key is keys.MODEL_URL:
        pull.fetch_url(str(settings[key]), progress)
    else:
        pull.fetch(pull.plan(_wanted(settings), lambda header: model_run(settings, header)), progress)


def _wanted(settings: Settings) -> Wanted:
    """Return the repository that the settings name, and what of it. Raises ModelsError."""
    from srbwriter.models import Wanted

    wanted = Wanted.parse(str(settings[keys.HF_REPO]))
    file = settings[keys.HF_FILE]
    return Wanted(wanted.repo, file) if file else wanted


class Values(Protocol):
    """An object with the values of settings: those of this run, or those changed since."""

    def __getitem__(self, key: Key[T], /) -> T: ...


def model_need(settings: Values, header: Header | None, size: int) -> Need:
    """Return the memory that a model of ``size`` bytes takes with these settings."""
    from srbwriter.models import need

    return need(header, size, model_run(settings, header))


def model_run(settings: Values, header: Header | None = None) -> Run:
    """Return how a model would be run, as far as the estimate of its memory goes."""
    options = engine_options(settings)
    return _run(options, window_and_cells(options.n_ctx, header.context if header else 0)[1])


def _run(options: EngineOptions, cells: int) -> Run:
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
        fitted = replace(fitted, gpu_layers=placement.gpu_layers, tensor_split=placement.split)
    return fitted, placement.notes


def placement_of(path: Path, options: EngineOptions, devices: Sequence[Device]) -> Placement | None:
    """Return how a model would run on these devices with the memory that is free now; None for no model."""
    from srbwriter.models import fit, look_at

    model = look_at(path)
    if model.header is None:
        return None
    window, cells = window_and_cells(None, model.header.context)
    flash = options.flash_attn != "off"
    wish = fit.Wish(
        window, _run(options, cells), options.gpu_layers, options.n_ctx, options.tensor_split, flash
    )
    return fit.place(model.header, model.size, wish, _gpus(devices), fit.free_memory())


def _gpus(devices: Sequence[Device]) -> list[Gpu]:
    from srbwriter.models.fit import Gpu

    return [Gpu(device.product, device.free, device.shared) for device in gpus(devices)]


def this_machine(settings: Values) -> Machine:
    """Return what models have to get along with on this machine."""
    from srbwriter.engine.native.devices import read_devices
    from srbwriter.models import Machine, memory, memory_budget

    devices = [] if settings[keys.GPU_LAYERS] == 0 else read_devices()
    return Machine(memory(), memory_budget(), tuple(_gpus(devices)), settings[keys.THREADS] or count_cores())


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
        disk_dir=str(paths.states_dir()) if settings[keys.CACHE_DISK] else None,
        disk_bytes=settings[keys.CACHE_DISK] << 20,
        seed=settings[keys.SEED],
        max_branches=settings[keys.MAX_N],
        lora=scaled_files(settings[keys.LORA]),
        pooling=settings[keys.POOLING] or "",
    )


def scaled_files(entries: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return files and how much of each, from ``FILE``, ``FILE:SCALE`` or several with commas between."""
    found: list[tuple[str, float]] = []
    for entry in entries:
        for part in [entry] if paths.expanded(entry).exists() else filter(None, entry.split(",")):
            name, _, scale = part.rpartition(":")
            try:
                whole = not name or paths.expanded(part).exists()
                found.append((part, 1.0) if whole else (name, float(scale)))
            except ValueError:
                found.append((part, 1.0))
    return tuple(found)


def suit_model(settings: Settings, path: Path | None = None, *, in_app: bool = False) -> Settings:
    """Return the settings with what suits a model, for whatever nobody has said.

    It is the model at ``path``, by default the one that the settings name. ``in_app`` also
    writes past the end where the model ends its stories too soon.
    """
    from srbwriter.models.suited import Suited, suited_to_file

    own = Suited()
    with suppress(ModelError):  # there is no such file: the load says so
        if path is not None or not elsewhere(settings):
            own = suited_to_file(path or model_path(settings))
    suited = {f"sampling.{name}": value for name, value in own.sampling.items()}
    if in_app and own.writes_on:
        suited["generation.ignore_eos"] = True
    defaults = {name: Setting(value, "of this model") for name, value in suited.items()}
    return settings.with_defaults(defaults)


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
    """Whether the model runs elsewhere, and is none of this machine's files."""
    if not settings[keys.CONNECT]:
        return False
    named = model_key(settings)
    if named is None:
        return True
    order = get_args(Source)  # what was said nearer to this start wins
    return order.index(settings.source(keys.CONNECT)) <= order.index(settings.source(named))


def remote_options(settings: Settings, notify: Callable[[str], None] | None = None) -> RemoteOptions:
    """Return the options of a remote engine; ``notify`` is called for each failed attempt.

    Raises ConfigError for a key file that cannot be read, and for settings that a remote engine does not
    take.
    """
    from srbwriter.engine.remote.options import RemoteOptions

    refuse_elsewhere(settings, keys.LORA)
    key, file = settings[keys.CONNECT_KEY], settings[keys.CONNECT_KEY_FILE]
    if key is None and file is not None:
        try:
            key = paths.expanded(file).read_text("utf-8").partition("\n")[0].strip()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{keys.CONNECT_KEY_FILE.name}: {file} cannot be read ({error})") from error
    return RemoteOptions(
        url=settings[keys.CONNECT] or "",
        key=key or "",
        dialect=settings[keys.DIALECT],
        model=settings[keys.CONNECT_MODEL] or "",
        n_ctx=settings[keys.CTX_SIZE],
        max_branches=settings[keys.MAX_N],
        seed=settings[keys.SEED],
        verify=settings[keys.CONNECT_VERIFY],
        notify=notify,
    )


def refuse_elsewhere(settings: Settings, *rows: Key[Any]) -> None:
    """Raises ConfigError for a setting about a model of this machine that was given for this very start.

    What a settings file says beside is for the starts without ``--connect``.
    """
    for row in rows:
        if settings[row] and settings.source(row) in ("flag", "environment"):
            raise ConfigError(
                f"{row.name} ({row.flags[0]}) is for a model that runs here, and with --connect it runs "
                f"elsewhere: leave it out, and give it to the server there"
            )


def loader(
    settings: Settings, nice: int = 0, notify: Callable[[str], None] | None = None
) -> EngineLoader:  # fmt: skip
    """Return a loader of the engine in the settings, ready to load in the background.

    ``nice`` is as in its options; ``notify`` is called when a size is reduced for lack of memory, and for
    each failed attempt to reach a remote engine.
    """
    if elsewhere(settings):
        from srbwriter.engine.remote.options import RemoteLoader

        return RemoteLoader(remote_options(settings, notify))
    options = replace(engine_options(settings), nice=nice)
    if (error := missing_model(settings)) is None:
        return EngineLoader(model_path(settings), options, fit=fit_options, notify=notify)

    def fail(path: object, options: object, /, *, on_progress: object) -> NoReturn:
        raise error

    return EngineLoader(model_path(settings), options, fail)


def check_models(settings: Settings) -> None:
    """Check the headers of the model and of the files loaded beside it. Raises ModelError."""
    from srbwriter.engine.model_files import check_headers
    from srbwriter.models import look_at

    if elsewhere(settings):  # then adapters are refused, or are for other starts
        return
    if (error := missing_model(settings)) is not None:
        raise error
    path, options = model_path(settings), engine_options(settings)
    check_headers(path, [paths.expanded(name) for name, _ in options.lora])
    if problem := look_at(path).problem:  # of several files one may be missing
        raise ModelError(str(path), problem, "download or convert it again")


def model_name(info: ModelInfo) -> str:
    """Return what a model is called: as its file is, or by what it is called elsewhere."""
    return Path(info.path).stem if Path(info.path).exists() else info.name


def model_hint(settings: Settings) -> str | None:
    """Say in one line how to use another model than the bundled one."""
    if model_key(settings) is not None or elsewhere(settings):
        return None
    return "this is the small bundled model; for a bigger one, -m FILE or `srbwriter models recommended`"
