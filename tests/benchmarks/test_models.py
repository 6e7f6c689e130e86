"""The maker of random-weight models: what it writes is a model that the engine runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.engine import Engine
from srbwriter.engine.types import EngineOptions, Request, Stop

pytest.importorskip("gguf")

from benchmarks import models  # noqa: E402  (needs gguf, which only the dev extra brings)


@pytest.mark.parametrize("kind", models.KINDS)
def test_a_made_model_writes(tmp_path: Path, kind: str) -> None:
    path = models.model_file(f"tiny-{kind}", tmp_path)
    shape = models.SHAPES["tiny"]
    with Engine.load(path, EngineOptions(n_ctx=256)) as engine:
        assert (engine.info.n_vocab, engine.info.n_embd) == (shape.vocab, shape.width)
        prompt = "once upon a time"
        assert engine.detokenize(engine.tokenize(prompt)) == prompt
        generation = engine.submit(Request(prompt, n=4, stop=Stop(max_tokens=8, ignore_eog=True)))
        generation.wait(60)
        takes = {branch.ids for branch in generation.branches}
        assert {len(take) for take in takes} == {8}
        assert len(takes) > 1


def test_the_same_seed_makes_the_same_file(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        models.make(models.SHAPES["tiny"], "q8_0", path, seed)
    first, second, other = (path.read_bytes() for path in paths)
    assert first == second != other


def test_a_model_is_made_once(tmp_path: Path) -> None:
    path = models.model_file("tiny", tmp_path)
    made = path.stat().st_mtime_ns
    assert models.model_file("tiny-q8_0", tmp_path) == path
    assert path.stat().st_mtime_ns == made
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["", "9b", "tiny-q9"])
def test_an_unknown_shape_is_named_in_the_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="a shape is one of"):
        models.model_file(name, tmp_path)


def test_vocabulary_has_no_doubles() -> None:
    tokens, merges = models.vocabulary(5000)
    assert len(set(tokens)) == len(tokens) == 5000
    assert {left + right for left, right in (merge.split(" ") for merge in merges)} <= set(tokens)
