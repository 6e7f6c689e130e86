"""LoRA adapters over HTTP: they are listed, and a request cannot choose among them."""

from __future__ import annotations

from pathlib import Path

from srbwriter.engine import Engine
from srbwriter.engine.types import EngineOptions
from tests.engine.toy_models import make_lora, make_qwen

from .conftest import serving


def test_adapters_are_listed_and_not_chosen(tmp_path: Path) -> None:
    make_qwen(tmp_path / "base.gguf")
    adapter = make_lora(tmp_path / "1.gguf", 1)
    options = EngineOptions(n_ctx=512, gpu_layers=0, threads=1, lora=((str(adapter), 0.5),))
    for http in serving(Engine.load(tmp_path / "base.gguf", options)):
        (listed,) = http.get("/lora-adapters").json()
        assert (listed["id"], listed["path"], listed["scale"]) == (0, str(adapter), 0.5)
        answer = http.post("/completion", json={"prompt": "x", "lora": [{"id": 0, "scale": 1}]})
        assert answer.status_code == 400 and "--lora" in answer.text
