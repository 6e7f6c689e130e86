"""A KV cache that cannot be is refused in words: llama.cpp would abort."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import EngineOptions, InvalidRequest

from .guards import run_child
from .toy_models import make_jamba, make_qwen

BLOCKS = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"]


def options(**fields: Any) -> EngineOptions:
    return EngineOptions(**{"n_ctx": 256, "gpu_layers": 0, "threads": 1, "max_branches": 4, **fields})


def test_no_way_to_load_it_ends_the_process(tmp_path: Path) -> None:
    """In a process of its own, as that would end it."""
    files = {
        80: make_qwen(tmp_path / "80", size=80), 48: make_qwen(tmp_path / "48", size=48),
        16: make_jamba(tmp_path / "16"),
    }  # fmt: skip
    child = run_child(
        f"""
        from srbwriter.engine.engine import Engine
        for size, file in { ({size: str(file) for size, file in files.items()})!r}.items():
            for which, flash in (("k", "off"), ("k", "on"), ("k", "auto"), ("v", "on"), ("v", "auto")):
                for kind in {BLOCKS!r}:
                    wish = {{f"cache_type_{{which}}": kind, "flash_attn": flash}}
                    try:
                        Engine.load(file, EngineOptions(gpu_layers=0, n_ctx=256, threads=1, **wish))
                    except ModelError as error:
                        said = str(error)
                    assert all(word in said for word in (file, f"cache_type_{{which}} {{kind}}", str(size),
                               f"--cache-type-{{which}} f16")), said
        """
    )
    assert child.returncode == 0, child.stderr


def test_quantised_values_need_flash_attention(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="flash"):
        Engine.load(make_qwen(tmp_path / "toy.gguf", size=64), options(cache_type_v="q8_0", flash_attn="off"))
