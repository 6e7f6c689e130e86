"""The estimate of memory, against what the engine takes, and what follows from it."""

from __future__ import annotations

from srbwriter.demo import bundled_model
from srbwriter.models import Header, Run, need, read_header
from srbwriter.models.fit import Need, suggest


def test_the_cache_is_exact() -> None:
    header = Header("llama", layers=2, kv_widths=((1024, 1024), (512, 512)))
    assert need(header, 0, Run(1000)).cache == 1000 * 2 * (1024 + 512) * 2
    # 32 numbers of type q8_0 take 34 bytes, of type q4_0 18
    assert need(header, 0, Run(32, "q8_0", "q4_0")).cache == 1536 * 34 + 1536 * 18


def test_the_bundled_models_cache_is_what_llama_cpp_reserves() -> None:
    header = read_header(bundled_model())
    width = sum(key + value for key, value in header.kv_widths)
    assert need(header, 7, Run(4608)) == Need(7, 4608 * width * 2, need(header, 0, Run(4608)).compute)


def test_flash_attention_keeps_no_scores() -> None:
    header = Header("llama", layers=1, width=64, heads=32, kv_widths=((64, 64),))
    saved = need(header, 0, Run(8192)).compute - need(header, 0, Run(8192, flash_attention=True)).compute
    assert saved >= 32 * 8192 * 512 * 4


def test_verdicts() -> None:
    assert [Need(n, 0, 0).verdict(memory=10, budget=7) for n in (7, 8, 10, 11)] == [
        "fits", "tight", "tight", "too large"
    ]  # fmt: skip


def test_the_finest_that_fits_is_suggested_up_to_six_bits() -> None:
    sizes = [("F16", 160), ("Q8_0", 85), ("Q6_K", 60), ("Q4_K_M", 45), ("Q2_K", 30)]
    for size, expected in ((100, "Q6_K"), (60, "Q6_K"), (59, "Q4_K_M"), (30, "Q2_K"), (5, "Q2_K")):
        assert sizes[suggest(sizes, lambda each, most=size: each <= most)][0] == expected
    assert suggest([("F16", 160)], lambda size: False) == 0
    assert suggest([("Q8_0", 80), ("F16", 160)], lambda size: True) == 0
