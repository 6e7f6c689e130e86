"""LoRA adapters: equal to changed weights, kept apart on disk, refused in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import EngineOptions, ModelError, Priority, Request, Stop

from .support import GREEDY, assert_same_logits, finish, forcing, rest
from .toy_models import make_lora, make_merged, make_qwen

OPTIONS = EngineOptions(
    n_ctx=1024, gpu_layers=0, seed=1, threads=1, max_branches=8, cache_type_k="f32", cache_type_v="f32"
)
TEXT = "the little king said no to the old bird in the rain of his door"
STOP = Stop(max_tokens=6, ignore_eog=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    make_qwen(folder / "base.gguf")
    make_lora(folder / "one.gguf", seed=1)
    make_lora(folder / "two.gguf", seed=2)
    return folder


def loaded(files: Path, *lora: tuple[str, float], model: str = "base.gguf", **options: Any) -> Engine:
    adapters = tuple((str(files / name), scale) for name, scale in lora)
    return Engine.load(files / model, replace(OPTIONS, lora=adapters, **options), thread=False)


def logits_of(engine: Engine) -> list[Any]:
    """Logits that each branch saw, writing the same words whatever the model thinks of them."""
    seen: dict[int, list[Any]] = {}
    script = engine.tokenize(" so it was not rain")
    request = Request(TEXT, sampling=GREEDY, stop=STOP, logits_callback=forcing([script], seen))
    finish(engine, engine.submit(request))
    return [row for index in sorted(seen) for row in seen[index]]


def reference(files: Path, tmp_path: Path, *adapters: tuple[int, float]) -> list[Any]:
    """The same of a model of which the adapters are a part."""
    make_merged(tmp_path / "merged.gguf", *adapters)
    with Engine.load(tmp_path / "merged.gguf", OPTIONS, thread=False) as engine:
        return logits_of(engine)


def assert_all_same(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert_same_logits(one, other, 2e-3)


@pytest.mark.parametrize("scales", [(1.0,), (0.5, -1.5), (0.0, 2.0)])
def test_an_adapter_is_the_model_with_other_weights(
    files: Path, tmp_path: Path, scales: tuple[float, ...]
) -> None:
    with loaded(files, *zip(("one.gguf", "two.gguf"), scales, strict=False)) as engine:
        found = logits_of(engine)
    assert_all_same(found, reference(files, tmp_path, *enumerate(scales, 1)))


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_what_was_evaluated_with_other_adapters_is_not_used_after_a_restart(
    files: Path, tmp_path: Path, scale: float
) -> None:
    with loaded(files, ("one.gguf", 1.0), disk_dir=str(tmp_path)) as engine:
        finish(
            engine,
            engine.submit(Request(TEXT, sampling=GREEDY, stop=STOP, priority=Priority.NORMAL)),
        )
        rest(engine)
    with loaded(files, ("one.gguf", scale), disk_dir=str(tmp_path)) as engine:
        logits_of(engine)
        assert (engine.stats().restored_tokens > 0) is (scale == 1.0)


def test_a_foreign_file_is_refused_in_words(files: Path, tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_bytes(b"PK\3\4 something else")
    other = make_lora(tmp_path / "other.gguf", metadata={"general.architecture": (8, "llama")})
    for path, words in ((files / "base.gguf", "could not load"), (tmp_path / "no.gguf", "not a GGUF"),
                        (other, "could not load"), (tmp_path / "missing.gguf", "no such file")):  # fmt: skip
        with pytest.raises(ModelError, match=words):
            loaded(files, (str(path), 1.0))
