"""What engine tests share: a spy on llama_decode, and a single-sequence evaluation to compare with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.native.context import OK, Context
from srbwriter.engine.native.library import L, library
from srbwriter.engine.types import BranchView, Cut, EngineOptions, Request, Sampling, Stop, Text, TokenRun
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

GREEDY = Sampling(temperature=0.0)
WAIT = 60.0
PROMPT = "Once upon a time, there was a little fox who lived in the wood."


@contextmanager
def decoded_rows(engine: Engine) -> Iterator[list[int]]:
    """Rows of every ``llama_decode`` meanwhile, counted where llama.cpp is called."""
    rows: list[int] = []
    lib: Any = engine._context._lib
    native = lib.llama_decode

    def spy(context: int, batch: Any) -> int:
        code = native(context, batch)
        if code == OK:
            rows.append(batch.n_tokens)
        return code

    lib.llama_decode = spy
    try:
        yield rows
    finally:
        lib.llama_decode = native


def drive(engine: Engine, until: Callable[[], object], most: int = 3000) -> int:
    """Step an engine loaded with ``thread=False`` until something holds; how many steps that took.

    One that has nothing to do sleeps until the next command, so then it has to hold.
    """
    for steps in range(most + 1):
        if until():
            return steps
        assert engine.process() or until(), "the engine fell asleep before its time"
    raise AssertionError(f"not within {most} steps")


def evaluate_last_tokens(engine: Engine) -> None:
    """Return when the engine's thread has evaluated the last tokens of the branches that have ended."""
    while engine.call(lambda: bool(engine._scheduler.loop.pending)):
        pass


def finish(engine: Engine, *generations: Generation) -> None:
    """Step until all of them are done; raises the error of one that failed."""
    drive(engine, lambda: all(g.done for g in generations))
    for generation in generations:
        generation.wait(0)


def rest(engine: Engine) -> None:
    """Let the engine do what it does while nobody asks for anything, without waiting for that to begin."""
    queue = engine._scheduler.queue
    delay, queue.rest_seconds = queue.rest_seconds, 0.0
    while engine.process():
        pass
    queue.rest_seconds = delay


def spill(engine: Engine) -> None:
    """Move all that nobody runs out of the cells."""
    while engine.call(engine._cache.evict):
        pass


def dictated(
    engine: Engine, ids: Sequence[int], stop: Stop, prompt: str = PROMPT, **sampling: Any
) -> Generation:
    """Submit a branch that writes ``ids``, and the end of the text behind them, whatever the model says."""
    script = [*ids, engine.eos]

    def dictate(logits: Any, view: BranchView) -> None:
        if len(view.ids) < len(script):
            logits[script[len(view.ids)]] += 1000.0

    chosen = Sampling(temperature=0.0, **sampling)
    return engine.submit(Request(PROMPT, sampling=chosen, stop=stop, logits_callback=dictate))


SMALL = EngineOptions(n_ctx=512, gpu_layers=0, seed=1, threads=1, max_branches=8)
"""Options of an engine that is quickly loaded, for tests that each need one of their own."""
SHORT = Stop(max_tokens=4, ignore_eog=True)


@contextmanager
def small_engine(thread: bool = False) -> Iterator[Engine]:
    """The short model with the options ``SMALL``; to be stepped unless it gets a ``thread``."""
    with load_engine(short_model(), SMALL, thread=thread) as engine:
        yield engine


def works(engine: Engine) -> bool:
    """A request runs from beginning to end."""
    generation = engine.submit(Request(PROMPT, n=2, stop=SHORT))
    if engine._thread is None:
        finish(engine, generation)
    return [len(b.ids) for b in generation.wait(WAIT).branches] == [4, 4]


def published(generation: Generation) -> list[tuple[str, list[int]]]:
    """Text and ids of each branch as its events tell them."""
    texts, ids = [""] * len(generation.branches), [list[int]() for _ in generation.branches]
    for event in generation.log:
        if isinstance(event, Text):
            texts[event.branch] += event.text
            ids[event.branch] += event.ids
        elif isinstance(event, Cut):
            texts[event.branch] = texts[event.branch][: event.chars]
            del ids[event.branch][event.tokens :]
    return list(zip(texts, ids, strict=True))


def fixture_of(
    opened: Callable[[], AbstractContextManager[Engine]], scope: Literal["module", "function"] = "module"
) -> Any:
    """Return a fixture that opens an engine for a module, or for each test."""

    @pytest.fixture(scope=scope)
    def engine() -> Iterator[Engine]:
        with opened() as loaded:
            yield loaded

    return engine


CHUNK = 32
"""Prompt tokens a step reads in :func:`stepped`."""


@contextmanager
def stepped(chunk: int = CHUNK, model: Path | None = None, **options: Any) -> Iterator[Engine]:
    """An engine to be stepped, whose prompt chunks have ``chunk`` tokens."""
    chosen = EngineOptions(**{"n_ctx": 2048, "gpu_layers": 0, "seed": 1, "threads": 1, **options})
    with load_engine(model or short_model(), chosen, thread=False) as engine:
        engine._scheduler.budget.size = lambda writing, abortable: chunk  # type: ignore[method-assign]
        yield engine


def long_prompt(engine: Engine, tokens: int, salt: str = "") -> list[int]:
    text = salt + PROMPT * (tokens // 8)
    return engine.tokenize(text, add_bos=True)[:tokens]


def ask(engine: Engine, prompt: Any = PROMPT, n: int = 1, tokens: int | None = 8, **more: Any) -> Generation:
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    return engine.submit(Request(prompt, n=n, stop=stop, sampling=seeded(5), **more))


def lengths(generation: Generation) -> list[int]:
    return [len(b.ids) for b in generation.branches]


class Reference:
    """One sequence in a context of its own, evaluated from nothing each time."""

    def __init__(self, engine: Engine, cells: int = 1024) -> None:
        options = engine.options
        self.model = engine.model
        threads = options.threads or 1
        self.context = Context(
            engine.model.pointer, cells=cells, sequences=1, batch=cells, ubatch=cells, threads=threads,
            threads_batch=threads, options=options, path="reference",
        )  # fmt: skip

    def logits(self, ids: Sequence[int], last: int = 1) -> list[NDArray[np.float32]]:
        """Logits after each of the last ``last`` tokens of ``ids``."""
        rows: list[NDArray[np.float32]] = []
        self.context.clear()
        start = 0
        for end in range(len(ids) - last + 1, len(ids) + 1):
            self.context.batch.clear()
            row = self.context.batch.add_run(list(ids[start:end]), start, 0, 1)
            assert self.context.decode() == OK
            rows.append(self.context.logits(row).copy())
            start = end
        return rows

    def close(self) -> None:
        self.context.close()


def forcing(
    scripts: Sequence[Sequence[int]], seen: dict[int, list[NDArray[np.float32]]]
) -> Callable[..., None]:
    """A callback that makes branch i write ``scripts[i]`` and keeps the logits it saw."""

    def callback(logits: NDArray[np.float32], view: BranchView) -> None:
        seen.setdefault(view.index, []).append(logits.copy())
        script = scripts[view.index % len(scripts)]
        wanted = script[min(len(view.ids), len(script) - 1)]
        logits[:] = -np.inf
        logits[wanted] = 0.0

    return callback


def assert_same_logits(found: NDArray[np.float32], fresh: NDArray[np.float32], most: float = 1e-2) -> None:
    """Equal to ``most``; the likeliest token too, unless its lead is smaller than the tolerance."""
    error = float(np.abs(found - fresh).max())
    assert error <= most, f"logits differ by {error}"
    best, second = np.sort(fresh)[-1], np.sort(fresh)[-2]
    if best - second > 2 * most:
        assert int(found.argmax()) == int(fresh.argmax())


def runs_of(branch: Branch) -> tuple[TokenRun, ...]:
    """The prompt that continues a branch token for token."""
    generation: Generation = branch.generation
    runs = [TokenRun("", generation.prompt_ids), TokenRun(branch.text, branch.ids)]
    if branch.buffer.tail:
        runs.append(TokenRun(branch.buffer.tail))
    return tuple(runs)


def seeded(seed: int, **fields: Any) -> Sampling:
    return replace(Sampling(seed=seed), **fields)


@cache
def exact_model() -> Path:
    """The short model with 32-bit weights.

    With 8-bit weights llama.cpp rounds activations to 8 bits too, and a difference of 1e-7 (another
    order of cells or rows) becomes one of 1e-1 in the logits: no bound could tell that from a fault.
    """
    path = Path(tempfile.mkdtemp()) / "exact.gguf"
    params = L.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread = 0, True, 1  # LLAMA_FTYPE_ALL_F32
    library()
    assert L.llama_model_quantize(str(short_model()).encode(), str(path).encode(), params) == 0
    return path


def last_position(context: Context, seq: int) -> int:
    """Return the highest evaluated position of ``seq``, -1 when it is empty."""
    return int(library().llama_memory_seq_pos_max(context.memory, seq))


@cache
def toy_model(make: Callable[[Path], Path]) -> Path:
    """One of ``toy_models``; its options should ask for a cache in 32 bits, so that bounds can be narrow."""
    return make(Path(tempfile.mkdtemp()) / "toy.gguf")


@contextmanager
def exact_engine(n_ctx: int = 2048, max_branches: int = 8) -> Iterator[Engine]:
    """The exact model, to be stepped: writes the same ids whatever else is in the batch."""
    options = EngineOptions(
        n_ctx=n_ctx, gpu_layers=0, seed=1, threads=1, flash_attn="on", max_branches=max_branches
    )
    with load_engine(exact_model(), options, thread=False) as engine:
        yield engine


LENGTH, AT = 32, 12
"""Tokens that a branch of :func:`started` writes in all, and those that it has written."""
RULE = Stop(max_tokens=LENGTH, ignore_eog=True)


def started(engine: Engine, tokens: int = AT, n: int = 4, stop: Stop = RULE) -> Generation:
    """A request whose branches have all written ``tokens`` tokens, from an empty cache."""
    engine.reset()
    # with this seed no token is so near a tie that another order of cells decides it (half-precision cache)
    generation = engine.submit(Request(PROMPT, n=n, sampling=seeded(19), stop=stop))
    drive(engine, lambda: all(len(b.ids) >= tokens for b in generation.branches))
    return generation
