"""The list of recommended models: every fact has a page, and figures are what they can be."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from srbwriter import launch
from srbwriter.cli.table import every_key
from srbwriter.config import load
from srbwriter.models.files import Header, is_model
from srbwriter.models.recommended import Machine, RecommendedModel, read_recommended, recommend

FOUND = read_recommended()
CONFIRMED = ("repository", "file", "size", "licence", "context", "shape")
MACHINES = {"4 GB": 4 << 30, "8 GB": 8 << 30, "16 GB": 16 << 30, "32 GB": 32 << 30, "GPU": 24 << 30}
FREE_LICENCES = {"Apache-2.0", "MIT", "BSD-3-Clause"}
each_model = pytest.mark.parametrize("model", FOUND.models, ids=lambda model: model.name)


@each_model
def test_every_fact_has_a_page_and_figures_are_plausible(model: RecommendedModel) -> None:
    given = {fact for fact in CONFIRMED if getattr(model, fact)}
    assert set(model.pages) == given
    assert all(re.fullmatch(r"https://[\w.-]+/\S+", page) for page in model.pages.values())
    assert is_model(model.file)
    assert model.licence in FREE_LICENCES
    assert model.size is None or 100 * 10**6 < model.size < 50 * 10**9
    assert model.context is None or 2048 <= model.context <= 1 << 20
    assert model.note == "" or model.note.endswith(".")
    names = {"layers", "width", "hidden", "heads", "kv_heads", "head_length", "vocabulary"}
    more = {"tied", "experts", "experts_used", "expert_hidden"}
    assert not model.shape or names <= set(model.shape) <= names | more


@each_model
def test_memory_is_what_the_program_computes(model: RecommendedModel) -> None:
    if model.memory is None:
        return
    assert model.size and model.shape
    shape = model.shape
    keys = shape["kv_heads"] * shape["head_length"]
    known = {name: shape[name] for name in ("layers", "width", "hidden", "heads", "vocabulary")}
    widths = ((keys, keys),) * shape["layers"]
    header = Header("", context=model.context or 0, kv_widths=widths, **known)  # type: ignore[arg-type]
    need = launch.model_need(load(every_key(), {}, {}), header, model.size).total
    assert abs(need - model.memory) <= 5_000_000, f"memory = {round(need, -7):_}"
    assert need <= MACHINES[model.machine] * 0.75


def test_a_list_without_figures_is_ranked_by_its_order() -> None:
    small, medium, large = (
        RecommendedModel(name, "o/r", "f.gguf", "base", "4 GB", memory=memory)
        for name, memory in (("small", 1), ("medium", 2), ("large", 3))
    )
    unknown = replace(small, memory=None)
    best, others = recommend([small, large, unknown, medium], Machine(memory=3))
    assert best is not None and best.model == medium
    assert [(row.model, row.verdict) for row in others] == [(small, "fits"), (large, "tight")]
    assert recommend([small], Machine(0))[0] is None
