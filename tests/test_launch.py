"""Settings become the engine's own words, whichever face asks."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from srbwriter import launch, paths
from srbwriter.cli.table import every_key
from srbwriter.config import Key, Settings, keys, load
from srbwriter.demo import bundled_model
from srbwriter.engine.devices import Device
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import EngineOptions, ModelError, Sampling, Stop
from tests.engine.guards import with_threads


def settings(**flags: Any) -> Settings:
    return load(every_key(), {name.replace("__", "."): value for name, value in flags.items()}, {})


def test_without_settings_the_engines_own_defaults_hold() -> None:
    options = launch.engine_options(settings())
    assert options.disk_dir == str(paths.cache_dir() / "states")
    assert replace(options, disk_dir=None) == EngineOptions()
    assert launch.sampling(settings()) == Sampling()
    assert launch.stop(settings()) == Stop(max_tokens=keys.MAX_TOKENS.default)


ELSEWHERE = {
    key.name: value
    for key, value in (
        (keys.CONNECT, "http://a:1"), (keys.DIALECT, "vllm"),
        (keys.CONNECT_KEY, "secret"), (keys.CONNECT_MODEL, "big"),
        (keys.CONNECT_VERIFY, False),
    )
}  # fmt: skip


def test_every_setting_of_an_engine_elsewhere_reaches_it() -> None:
    more = {keys.CTX_SIZE.name: 1024, keys.MAX_N.name: 16, keys.SEED.name: 9}
    options = launch.remote_options(load(every_key(), {**ELSEWHERE, **more}, {}))
    assert options.url == "http://a:1"
    plain = RemoteOptions("")
    untouched = {f.name for f in fields(plain) if getattr(options, f.name) == getattr(plain, f.name)}
    times = {"connect_seconds", "silent_seconds", "first_wait", "longest_wait"}
    assert untouched == {"max_requests", "retries", "notify", *times}


def test_every_model_setting_reaches_the_engine() -> None:
    said = {
        "model.ctx_size": 1024, "model.threads": 3, "model.threads_batch": 4,
        "model.batch_size": 64,
        "model.ubatch_size": 32,
        "model.gpu_layers": 5, "model.main_gpu": 1, "model.tensor_split": (3.0, 1.0),
        "model.mlock": True, "model.mmap": False, "model.flash_attn": "off",
        "model.cache_type_k": "q8_0", "model.cache_type_v": "q4_0", "model.cache_ram": 7,
        "model.cache_disk": 9, "model.lora": ("a.gguf:0.5",),
        "model.pooling": "last",
        "generation.seed": 9, "generation.max_n": 16,
    }  # fmt: skip
    options = launch.engine_options(load(every_key(), said, {}))
    plain = EngineOptions()
    untouched = {f.name for f in fields(plain) if getattr(options, f.name) == getattr(plain, f.name)}
    assert untouched == {"max_sequences", "logits_rows", "step_seconds", "nice"}
    model_rows = {key.name for key in every_key().section("model")} - {
        keys.MODEL.name, *ELSEWHERE
    }  # fmt: skip
    assert model_rows <= set(said), "a new row needs its place in engine_options and here"


def test_files_of_adapters_may_say_how_much_of_each(tmp_path: Path) -> None:
    odd = tmp_path / "a:2"
    odd.touch()
    assert launch.scaled_files(["a.gguf", "b.gguf:0.5", "d:x.gguf", str(odd)]) == (
        ("a.gguf", 1.0), ("b.gguf", 0.5), ("d:x.gguf", 1.0), (str(odd), 1.0)
    )  # fmt: skip


@pytest.mark.parametrize("key", every_key().section("sampling"), ids=lambda key: key.name)
def test_every_sampling_setting_reaches_the_engine(key: Key[Any]) -> None:
    value = next(value for value in _values_of(key) if value != key.default)
    sampling = launch.sampling(load(every_key(), {key.name: value}, {}))
    (field,) = [f.name for f in fields(sampling) if getattr(sampling, f.name) != getattr(Sampling(), f.name)]
    assert getattr(sampling, field) == value


def _values_of(key: Key[Any]) -> Iterator[Any]:
    for text in ("1", "0.5", "2", "0", "top_k"):
        with contextlib.suppress(ValueError):
            yield key.read_text(text)


def test_stop_rules_reach_the_engine() -> None:
    said = settings(
        generation__stop=("END",), generation__boundary="sentence", generation__max_tokens=5,
        generation__min_tokens=2, generation__ignore_eos=True,
    )  # fmt: skip
    assert launch.stop(said) == Stop(
        max_tokens=5, min_tokens=2, strings=("END",), boundary="sentence", ignore_eog=True
    )


def test_a_context_is_fitted_to_little_memory_and_the_writer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srbwriter.models.fit.free_memory", lambda: 50_000_000)
    notices: list[str] = []
    with contextlib.closing(launch.loader(settings(model__gpu_layers=0), notify=notices.append)) as loader:
        engine = loader.wait(60)
        assert engine.n_ctx == engine.stats().total_cells == 2048  # and no room beside one branch
        assert loader.notes == tuple(notices) == tuple(notices[:1])
        assert "50 MB of memory are free" in notices[0] and "Close other programs" in notices[0]
        assert engine.info.device == "CPU"
        assert loader.again().options == loader.options, "another load is fitted anew"


@pytest.mark.parametrize(("free", "layers"), [(24, 9), (1.05, 5), (1, 0)])
def test_layers_are_fitted_to_a_gpu_and_numbers_that_were_asked_for_stay(
    monkeypatch: pytest.MonkeyPatch, free: float, layers: int
) -> None:
    gpu = Device("CUDA0", "NVIDIA GeForce RTX 4070", "gpu", int(free * 2**30), 12 << 30)
    monkeypatch.setattr("srbwriter.engine.native.devices.read_devices", lambda: [gpu])
    fitted, notes = launch.fit_options(bundled_model(), launch.engine_options(settings()))
    assert bool(notes) == (layers < 9)
    if layers in (0, 9):
        assert fitted.gpu_layers == layers
    else:
        assert 0 < (fitted.gpu_layers or 0) < 9
    for asked in (-1, 3):
        said = launch.engine_options(settings(model__gpu_layers=asked))
        assert launch.fit_options(bundled_model(), said)[0].gpu_layers == asked
    assert fitted.n_ctx is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere priority is one number for the whole process")
def test_the_threads_that_compute_stand_back_behind_the_app() -> None:
    run = subprocess.run(
        [sys.executable, "-c", STEPS_BACK], env=with_threads(), capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    steps, app = run.stdout.splitlines()
    assert steps.split().count("2") >= 2, "the engine's own thread, and the one beside it"
    assert app == "0"


STEPS_BACK = """
import os
from srbwriter import launch
from srbwriter.config import load
from srbwriter.demo import bundled_model
from srbwriter.engine import Request, Stop
from srbwriter.cli.table import every_key

own = os.getpriority(os.PRIO_PROCESS, 0)
said = {"model.path": bundled_model(), "model.threads": 2}
loader = launch.loader(load(every_key(), said, {}), nice=2)
loader.wait(60).submit(Request("It rained", stop=Stop(max_tokens=2))).wait(60)
print(*(os.getpriority(os.PRIO_PROCESS, int(task)) - own for task in os.listdir("/proc/self/task")))
print(os.getpriority(os.PRIO_PROCESS, 0) - own)
loader.close()
"""


def test_a_missing_model_is_an_error_in_words() -> None:
    loader = launch.loader(settings(model__path=paths.models_dir() / "none.gguf"))
    with pytest.raises(ModelError, match="none.gguf"):
        loader.wait(60)


def test_only_the_bundled_model_comes_with_a_hint() -> None:
    assert "-m FILE" in (launch.model_hint(settings()) or "")
    assert launch.model_hint(settings(model__path=bundled_model())) is None


def test_which_model_is_used() -> None:
    """The one named, in the folder of models too; the bundled one."""
    assert launch.model_path(settings()) == bundled_model()
    named = settings(model__path=Path("novelist.gguf"))
    assert launch.model_path(named) == Path("novelist.gguf")
    mine, fetched = (paths.models_dir() / name for name in ("novelist.gguf", "o/r/m-Q4_0.gguf"))
    for file in (mine, fetched):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert launch.model_path(named) == mine
    assert launch.model_path(settings(model__path=Path("m-Q4_0"))) == fetched
    paths.config_dir().mkdir(parents=True)
    paths.config_file().write_text('[model]\npath = "novelist.gguf"\n', "utf-8")
    assert launch.model_path(settings()) == mine


def test_the_estimate_follows_the_settings() -> None:
    from srbwriter.models.files import Header

    header = Header("llama", context=4096, layers=1, width=64, heads=1, kv_widths=((64, 64),))
    plain = launch.model_need(settings(), header, 0)
    assert plain.cache == (4096 + 4096) * 2 * 64 * 2
    said = settings(model__ctx_size=1024, model__cache_type_v="q8_0", model__ubatch_size=64)
    less = launch.model_need(said, header, 0)
    assert less.cache == 1024 * 64 * (16 + 8.5) / 8 and less.compute < plain.compute / 8
