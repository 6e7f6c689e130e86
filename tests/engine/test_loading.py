"""What can be loaded is, what cannot says why; closing ends everything, whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    BranchView,
    Cancelled,
    EngineClosed,
    InvalidRequest,
    ModelError,
    Request,
    Stop,
    Text,
)

from .support import PROMPT, SHORT, SMALL, WAIT, finish, fixture_of, short_model, small_engine
from .toy_models import make_t5, make_without_vocabulary

engine = fixture_of(small_engine, "function")


# ---- loading


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "not GGUF": (lambda good: b"PK\3\4 something else" * 100, "not a GGUF"),
    "empty": (lambda good: b"", "not a GGUF"),
    "only the magic": (lambda good: good[:4], ""),
    "bad header": (lambda good: good[:8] + b"\xff" * 16 + good[24:], "header"),
    "cut in its header": (lambda good: good[:3000], "header"),
    "cut in its weights": (lambda good: good[: len(good) // 2], ""),
}


@pytest.mark.parametrize("kind", ["missing", "folder", *BROKEN])
def test_what_cannot_be_loaded_says_why(tmp_path: Path, kind: str) -> None:
    path, problem = tmp_path / "model.gguf", {"missing": "no such file", "folder": "folder"}.get(kind, "")
    if kind == "folder":
        path.mkdir()
    elif kind in BROKEN:
        damage, problem = BROKEN[kind]
        path.write_bytes(damage(short_model().read_bytes()))
    with pytest.raises(ModelError) as caught:
        Engine.load(path, SMALL)
    assert caught.value.path == str(path)
    assert problem in caught.value.problem
    assert caught.value.cure


@pytest.mark.parametrize(
    ("make", "problem"),
    [(make_t5, "encodes one text"), (make_without_vocabulary, "no vocabulary")],
)
def test_models_over_which_llama_cpp_would_end_the_process_are_refused(
    make: Callable[[Path], Path], problem: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "model.gguf")
    with pytest.raises(ModelError, match=problem) as caught:
        Engine.load(path, SMALL)
    assert caught.value.path == str(path)
    assert caught.value.cure


def test_a_load_can_be_cancelled() -> None:
    seen: list[float] = []

    def stop(fraction: float) -> bool:
        seen.append(fraction)
        return fraction < 0.5

    with pytest.raises(Cancelled):
        Engine.load(short_model(), SMALL, on_progress=stop)
    assert seen == sorted(seen)
    assert seen[-1] >= 0.5


@pytest.mark.parametrize(
    "fields",
    [
        {"n_ctx": -1}, {"n_ctx": 2**40}, {"n_ctx": "2048"}, {"threads": 0}, {"threads": 513}, {"n_batch": 0},
        {"gpu_layers": -2}, {"max_branches": 300}, {"cache_type_k": "f17"}, {"flash_attn": "maybe"},
        {"tensor_split": (1.0,) * 129}, {"step_seconds": float("nan")}, {"threads": True}, {"seed": 1.5},
        {"lora": (("a.gguf", "1"),)}, {"disk_dir": 5},
    ],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Engine.load(short_model(), replace(SMALL, **fields))
    assert caught.value.field == next(iter(fields))


# ---- closing


def test_closing_ends_what_runs_and_can_be_repeated(threaded: Engine) -> None:
    generation = threaded.submit(Request(PROMPT, n=2, stop=Stop(ignore_eog=True)))
    next(e for e in generation if isinstance(e, Text))
    threaded.close()
    threaded.close()
    with pytest.raises(EngineClosed):
        generation.wait(WAIT)
    assert not any(b.live for b in generation.branches)
    assert not threaded.alive


def test_nothing_can_be_asked_of_a_closed_engine() -> None:
    engine = Engine.load(short_model(), SMALL, thread=False)
    generation = engine.submit(Request(PROMPT, stop=SHORT))
    finish(engine, generation)
    engine.close()
    questions: list[Callable[[], object]] = [
        lambda: engine.submit(Request("x")), engine.process, engine.reset, engine.flush,
        lambda: engine.call(lambda: 1), lambda: engine.resident([1]),
        lambda: engine.tokenize("words"), lambda: engine.token("a"),
    ]  # fmt: skip
    for question in questions:
        with pytest.raises(EngineClosed):
            question()
    assert engine.stats().generated_tokens == 4
    assert engine.detokenize([300])
    assert engine.info.n_vocab
    for verb in (generation.cancel, generation.branches[0].reroll, generation.add_branch):
        verb()  # too late to matter, and harmless
    with pytest.raises(EngineClosed):
        generation.wait(0)


@pytest.mark.parametrize("where", ["listener", "callback"])
def test_an_engine_may_be_closed_from_its_own_callbacks(where: str) -> None:
    engine = Engine.load(short_model(), SMALL)

    def callback(logits: Any, view: BranchView) -> None:
        if where == "callback" and len(view.ids) == 2:
            engine.close()

    generation = engine.submit(Request(PROMPT, n=2, stop=SHORT, logits_callback=callback))
    if where == "listener":
        generation.add_listener(engine.close)
    with pytest.raises(EngineClosed):
        generation.wait(WAIT)
    assert engine._thread is not None
    engine._thread.join(WAIT)
    assert not engine._thread.is_alive()
    assert engine.raw_ctx == 0
