"""Branches are what a bare loop over llama.cpp writes, with each kind of memory, and so are probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch
from srbwriter.engine.seeds import derive_seed
from srbwriter.engine.types import EngineOptions, Request, Sampling, Stop

from .bare import BareLoop
from .support import toy_model
from .toy_models import make_gemma, make_jamba, make_mamba, make_moe, make_qwen

KINDS: dict[str, Callable[[Path], Path]] = {
    "dense": make_qwen, "sliding": make_gemma, "hybrid": make_jamba, "recurrent": make_mamba, "MoE": make_moe
}  # fmt: skip
OPTIONS = EngineOptions(
    n_ctx=1024, gpu_layers=0, threads=1, max_branches=16, flash_attn="off", cache_type_k="f32",
    cache_type_v="f32",
)  # fmt: skip
SAMPLINGS = (
    Sampling(), Sampling(temperature=0.0), Sampling(temperature=1.4, top_k=0, top_p=1.0, min_p=0.0),
    Sampling(repeat_penalty=1.3, repeat_last_n=8, presence_penalty=0.3),
)  # fmt: skip
PROMPTS = ("The king said to the fox in the rain, and so", "the old bird had a door. ", "It was not little\n")


def branches_of(engine: Engine, seed: int, n: int = 8, tokens: int = 24) -> Iterator[Branch]:
    """Yield branches that were written beside each other: for each prompt and setting ``n``."""
    generations = [
        engine.submit(
            Request(prompt, n=n, logprobs=5, sampling=replace(sampling, seed=seed + place),
                    stop=Stop(max_tokens=tokens))
        )
        for place, (prompt, sampling) in enumerate((p, s) for p in PROMPTS for s in SAMPLINGS)
    ]  # fmt: skip
    for generation in generations:
        yield from generation.wait(120).branches


def compare(bare: BareLoop, branch: Branch) -> tuple[bool, float, int]:
    """Return whether the ids are equal, the largest error of a log-probability, and how many there are."""
    prompt, most = branch.generation.prompt_ids, branch.stop_rule.max_tokens or 0
    drawn = derive_seed(branch.seed, 0)  # of the last sampler of a chain
    equal = list(branch.ids) == bare.write(prompt, most, branch.sampling, drawn)
    errors = [0.0]
    for known, row in zip(branch.logprobs, bare.logprobs(prompt, branch.ids), strict=True):
        errors += [abs(value - row[token]) for token, value in ((known.id, known.logprob), *known.top)]
    return equal, max(errors), len(errors) - 1


@pytest.mark.parametrize("kind", KINDS)
def test_branches_are_what_a_bare_loop_writes(kind: str) -> None:
    path = toy_model(KINDS[kind])
    with Engine.load(path, OPTIONS) as engine, closing(BareLoop(path)) as bare:
        for branch in branches_of(engine, seed=1, n=2):
            equal, error, count = compare(bare, branch)
            assert equal and error < 1e-2 and count == 6 * len(branch.ids)
