"""Text that repeats itself: what a loop is, and how a branch leaves it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from srbwriter.engine.generation import Branch
from srbwriter.engine.rules import find_loop, letters_of
from srbwriter.engine.types import (
    BranchView,
    Cut,
    EngineOptions,
    PhraseBanned,
    Request,
    Sampling,
    Stop,
)
from tests.fakes.shared_model import load_engine

from .support import PROMPT, finish, published, stepped, toy_model
from .toy_models import make_gemma, make_jamba, make_mamba, make_qwen

PLAIN = "Once upon a time there was a fox who lived in the wood; nobody had seen the mill since the flood."


def loops(text: str) -> int:
    """How many loops begin in a text."""
    inside = [find_loop(letters_of(text[:end])).stands(3) for end in range(len(text) + 1)]
    return sum(now and not before for before, now in pairwise(inside))


MEMORIES = {"attention": make_qwen, "sliding": make_gemma, "hybrid": make_jamba, "recurrent": make_mamba}


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_branch_leaves_a_loop_whatever_the_memory(memory: str) -> None:
    rule = Stop(max_tokens=120, ignore_eog=True)
    options = EngineOptions(n_ctx=1024, gpu_layers=0, seed=1, threads=1, max_branches=4)
    with load_engine(toy_model(MEMORIES[memory]), options, thread=False) as engine:
        refrain = engine.tokenize_continuation("The cat sat by the river. ")

        def repeat(logits: Any, view: BranchView) -> None:
            """Make the next token of the refrain by far the likeliest."""
            logits[refrain[len(view.ids) % len(refrain)]] += 100.0

        texts: list[str] = []
        for guard in (0, 3):
            sampling = Sampling(temperature=0.0, loop_guard=guard)
            request = Request(PROMPT, n=2, sampling=sampling, stop=rule, logits_callback=repeat)
            generation = engine.submit(request)
            finish(engine, generation)
            texts.append(generation.branches[0].text)
        assert loops(texts[0]) and not loops(texts[1])
        assert published(generation) == [(branch.text, list(branch.ids)) for branch in generation.branches]
        assert all(branch.bans and len(branch.ids) == 120 for branch in generation.branches)
        assert all(event.tokens for event in generation.log if isinstance(event, PhraseBanned))
        assert not any(isinstance(event, Cut) for event in generation.log), "nothing shown is taken back"


def written(sampling: Sampling, prompt: str) -> Branch:
    with stepped(n_ctx=1024) as engine:
        rule = Stop(max_tokens=40, ignore_eog=True)
        generation = engine.submit(Request(prompt, sampling=sampling, stop=rule))
        finish(engine, generation)
        return generation.branches[0]


def test_text_without_loops_is_the_same_with_the_guard() -> None:
    assert written(Sampling(seed=7, loop_guard=3), PLAIN).text == written(Sampling(seed=7), PLAIN).text
