"""Models are found where people keep them, by the names they know."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.demo import bundled_model
from srbwriter.models.files import ModelsError
from srbwriter.models.local import find, local_files, local_models
from tests.models.gguf_files import SHAPE, gguf, put


def hub_cache(home: Path) -> Path:
    return home / ".cache" / "huggingface" / "hub"


def snapshot(home: Path, repo: str, name: str, revision: str = "abc") -> Path:
    """A file as the hub's own library keeps it: a link to a blob."""
    top = hub_cache(home) / f"models--{repo.replace('/', '--')}"
    blob = put(top / "blobs" / "0123")
    link = top / "snapshots" / revision / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(blob)
    return link


def test_all_places_are_looked_into(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(paths.models_dir() / "deep" / "a-Q4_0.gguf")
    snapshot(home, "o/r", "b.gguf")
    put(home / ".lmstudio" / "models" / "p" / "r" / "c.gguf")
    found = {(model.place, model.name) for model in local_models()}
    assert found == {
        ("bundled", "storyteller"), ("models folder", "a-Q4_0"), ("Hugging Face", "b"), ("LM Studio", "c"),
    }  # fmt: skip
    monkeypatch.setenv("HF_HUB_CACHE", str(home / "elsewhere"))
    assert "b" not in {path.stem for _, path in local_files()}


def test_a_split_model_is_one_model() -> None:
    for number in (1, 2):
        put(paths.models_dir() / f"big-0000{number}-of-00002.gguf", gguf(weights=100))
    (_, big) = local_models()
    assert (big.name, big.size, big.problem) == ("big", 2 * len(gguf(weights=100)), "")
    big.path.with_name("big-00002-of-00002.gguf").unlink()
    assert "big-00002-of-00002.gguf is missing" in local_models()[1].problem


def test_what_only_goes_with_a_model_is_not_listed() -> None:
    put(paths.models_dir() / "mmproj-a.gguf")
    put(paths.models_dir() / ".hidden.gguf")
    put(paths.models_dir() / "lora.gguf", gguf({**SHAPE, "general.type": "adapter"}))
    assert [model.name for model in local_models()] == ["storyteller"]


def test_a_model_is_found_by_any_of_its_names() -> None:
    path = put(paths.models_dir() / "o" / "r" / "a-Q4_0.gguf")
    for name in ("a-Q4_0", "a-Q4_0.gguf", "o/r/a-Q4_0.gguf", str(path)):
        assert find(name) == path
    assert find("storyteller") == bundled_model()
    with pytest.raises(ModelsError, match=r"no model is called a-Q4 — `srbwriter models`"):
        find("a-Q4")


def test_two_of_one_name_need_a_path(home: Path) -> None:
    first, second = (put(paths.models_dir() / folder / "a.gguf") for folder in "pq")
    put(home / ".lmstudio" / "models" / "a.gguf")
    with pytest.raises(ModelsError, match="give the path") as caught:
        find("a")
    assert str(first) in str(caught.value) and str(second) in str(caught.value)
    first.unlink()
    assert find("a") == second, "the models folder comes before the folders of others"
