"""LoRA adapters: equal to changed weights, kept apart on disk, refused in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import EngineOptions, InvalidRequest, ModelError, Priority, Request, Stop

from .support import GREEDY, assert_same_logits, finish, forcing, rest
from .toy_models import WIDTH, make_lora, make_merged, make_qwen

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


# ---- what is refused


@pytest.mark.parametrize("scale", [float("nan"), 1e9])
def test_a_scale_that_cannot_be_is_refused(files: Path, scale: float) -> None:
    with pytest.raises(InvalidRequest, match="scale"):
        loaded(files, ("one.gguf", scale))


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def halves(a: Any, b: Any, tensor: str = "blk.0.attn_q.weight") -> dict[str, Any]:
    return {f"{tensor}.lora_a": a, f"{tensor}.lora_b": b}


S, I = 8, 5  # enum gguf_type  # noqa: E741


@pytest.mark.parametrize(
    ("metadata", "tensors", "words"),
    [
        (None, {"blk.0.attn_q.weight.lora_a": ones(2, WIDTH)}, "no other half"),
        (None, halves(ones(2, WIDTH), ones(WIDTH, 2), "blk.9.attn_q.weight"), "could not load"),
        (None, halves(ones(2, WIDTH + 1), ones(WIDTH, 2)), "could not load"),
        (None, halves(ones(2, WIDTH), ones(WIDTH, 3)), "could not load"),
        (None, halves(ones(0, WIDTH), ones(WIDTH, 0)), "shape"),
        ({"general.type": (S, "model")}, None, "no LoRA adapter"),
        ({"adapter.type": (S, "ia3")}, None, "no LoRA adapter"),
        ({"general.architecture": (S, "llama")}, None, "made for llama models"),
        ({"adapter.lora.alpha": (I, 5)}, None, "no number"),
        ({"adapter.alora.invocation_tokens": (I, 5)}, None, "certain words"),
    ],
)
def test_a_foreign_file_is_refused_in_words(
    files: Path, tmp_path: Path, metadata: Any, tensors: Any, words: str
) -> None:
    """llama.cpp ends the process over a value of another type than it expects."""
    path = make_lora(tmp_path / "bad.gguf", metadata=metadata, tensors=tensors)
    with pytest.raises(ModelError, match=words):
        loaded(files, (str(path), 1.0))
