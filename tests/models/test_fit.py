"""The estimate of memory, against what the engine takes; layers and context, fitted to made-up machines."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate, cycle, islice
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.models.files import Header, read_header
from srbwriter.models.fit import GPU_SPARE, HOST_SHARE, Gpu, Need, Placement, Run, need, place

GB = 10**9
NOVELIST = Header(
    "llama", context=8192, layers=32, width=4096, hidden=14336, heads=32, vocabulary=128256,
    kv_widths=((1024, 1024),) * 32,
)  # fmt: skip
WEIGHTS = 4_920_000_000
RUN = Run(8192 + 4096)
AMPLE = 64 * GB


def placed(*gpus: float, free: float = AMPLE, shared: bool = False, **changes: Any) -> Placement:
    """The placement of an 8B model; sizes in GB."""
    devices = [Gpu(f"GPU {n}", int(size * GB), shared) for n, size in enumerate(gpus)]
    return place(NOVELIST, WEIGHTS, RUN, devices, int(free), window=8192, **changes)


def test_the_bundled_models_cache_is_what_llama_cpp_reserves() -> None:
    header = read_header(bundled_model())
    width = sum(key + value for key, value in header.kv_widths)
    assert need(header, 7, Run(4608)) == Need(7, 4608 * width * 2, need(header, 0, Run(4608)).compute)


def test_without_a_gpu_and_with_memory_nothing_is_changed() -> None:
    assert placed() == Placement(0, 33, None, window=8192)


def test_all_layers_go_to_a_gpu_that_holds_them() -> None:
    assert placed(24) == Placement(33, 33, None, window=8192)


def test_a_smaller_gpu_takes_some_layers_and_the_writer_is_told() -> None:
    found = placed(7.8)
    assert 20 < found.gpu_layers < 33 and found.n_ctx is None
    [note] = found.notes
    assert note.startswith(f"{found.gpu_layers} of 33 layers run on GPU 0, the others on the processor")
    assert "7.8 GB of GPU 0 and 64.0 GB of memory are free" in note


def test_too_little_memory_makes_the_context_smaller_and_names_the_cure() -> None:
    found = placed(free=7.5 * GB)
    assert found.n_ctx is not None and 2048 <= found.n_ctx < 8192 and found.n_ctx % 256 == 0
    [note] = found.notes
    assert f"{found.n_ctx} tokens instead of 8192" in note and "7.5 GB of memory are free" in note
    assert "--ctx-size insists" in note and "--cache-type-k q8_0" in note


def test_a_model_that_fits_in_no_way_is_loaded_with_the_smallest_context_and_a_word_of_warning() -> None:
    found = placed(free=2 * GB)
    assert found.n_ctx == 2048 and not found.fits
    assert "it will be slow, or fail" in found.notes[-1]


def test_what_was_asked_for_stays_and_the_writer_is_told() -> None:
    found = placed(6, free=2 * GB, gpu_layers=33, n_ctx=8192)
    assert (found.gpu_layers, found.n_ctx) == (33, 8192)
    assert "--gpu-layers 33 puts more on GPU 0 than fits" in found.notes[0]
    assert placed(free=2 * GB, n_ctx=8192).notes[0].startswith("The model needs")
    assert placed(6, gpu_layers=-1).gpu_layers == 33


# ---- whatever the model and the machine


@st.composite
def models(draw: st.DrawFn) -> tuple[Header, int]:
    layers = draw(st.integers(1, 90))
    width = draw(st.integers(1, 64)) * 128
    pattern = draw(
        st.lists(st.integers(0, 8), min_size=1, max_size=6)
    )  # layers of a kind come again and again
    widths = [(n * 128, n * 128) for n in islice(cycle(pattern), layers)]
    header = Header(
        "llama", context=8192, layers=layers, width=width, hidden=3 * width, heads=width // 128,
        vocabulary=draw(st.integers(0, 260_000)), kv_widths=tuple(widths),
        dense_layers=draw(st.integers(0, layers)),
    )  # fmt: skip
    return header, draw(st.integers(10**6, 200 * GB))


frees = st.integers(0, 100 * GB)
gpus = st.lists(st.builds(Gpu, st.just("GPU"), frees, st.booleans()), max_size=4)


def on_gpu(layers: int, split: tuple[float, ...], count: int) -> list[int]:
    """How many layers llama.cpp puts on each GPU (``load_tensors`` in its llama-model.cpp)."""
    shares = [*split, *[0.0] * count][:count] if split else [1.0]
    bounds = [part / sum(shares) for part in accumulate(shares)]
    given = [0] * max(count, 1)
    for layer in range(layers):
        given[bisect_right(bounds, layer / layers)] += 1
    return given


@settings(max_examples=60, deadline=None)
@given(
    models(), gpus, frees, st.sampled_from([512, 2048, 8192]), st.none() | st.integers(-1, 100),
    st.none() | st.integers(16, 200_000),
)  # fmt: skip
def test_what_is_chosen_fits(
    model: tuple[Header, int], devices: list[Gpu], free: int, window: int, gpu_layers: int | None,
    n_ctx: int | None,
) -> None:  # fmt: skip
    header, weights = model
    found = place(header, weights, RUN, devices, free, window=window, gpu_layers=gpu_layers, n_ctx=n_ctx)
    cells = found.n_ctx or RUN.cells
    if n_ctx is not None:
        assert found.n_ctx == n_ctx
    if gpu_layers is not None and devices:
        assert found.gpu_layers == (gpu_layers if 0 <= gpu_layers <= found.layers else found.layers)
    if not devices:
        assert found.gpu_layers == 0
    if gpu_layers is None and found.gpu_layers:
        each = on_gpu(found.gpu_layers, found.split, len(devices))
        assert sum(each) == found.gpu_layers
        run = replace(RUN, cells=cells, flash_attention=True)
        compute = need(header, 0, run).compute
        caches = [need(replace(header, kv_widths=(width,)), 0, run).cache for width in header.kv_widths]
        for layers, gpu in zip(each, devices, strict=True):
            blocks = min(layers, header.layers)
            cache = sum(sorted(caches)[-blocks:])
            used = weights * blocks // header.layers + cache + compute + GPU_SPARE
            assert not layers or used <= gpu.free + header.layers
    if n_ctx is None and cells > min(window, 2048) and found.gpu_layers == 0:
        assert need(header, weights, replace(RUN, cells=cells)).total <= free * HOST_SHARE + 1
    if found.n_ctx is not None and n_ctx is None and found.n_ctx < window:
        assert found.notes
