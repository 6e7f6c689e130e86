"""Where typed text meets the model: the last typed token is given back, and the model completes it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import BranchView, Request, Sampling, Stop

from .support import GREEDY, PROMPT, SHORT, exact_engine, finish, fixture_of, seeded

RULE = Stop(max_tokens=12, ignore_eog=True)
CUT = "Once upon a time, there was a little fo"  # "fo" is a token; the model would write " fox" as one


engine = fixture_of(lambda: exact_engine(n_ctx=1024))


def write(engine: Engine, prompt: Any, **fields: Any) -> Generation:
    given: dict[str, Any] = {"stop": RULE, "sampling": seeded(6), "heal": True, **fields}
    generation = engine.submit(Request(prompt, **given))
    finish(engine, generation)
    return generation


def whole(engine: Engine, generation: Generation, index: int = 0) -> str:
    """The text that the ids of a branch and its prompt spell."""
    ids = [*generation.prompt_ids, *generation.branches[index].ids]
    return engine.detokenize(ids).lstrip()


def test_healing_lets_longer_tokens_in_than_the_typed_one(engine: Engine) -> None:
    """A space at the end is the classic: no token of the vocabulary follows it well."""
    prompt = PROMPT + " He saw a "
    ids = engine.tokenize(prompt)
    healed, raw = write(engine, prompt, sampling=GREEDY), write(engine, prompt, sampling=GREEDY, heal=False)
    first = engine.token_bytes(healed.branches[0].ids[0])
    assert first.startswith(engine.token_bytes(ids[-1]))
    assert len(first) > len(engine.token_bytes(ids[-1]))
    assert len(raw.prompt_ids) == len(healed.prompt_ids) + 1


TEXT = PROMPT + " She saw a café and a 🐈."


@example(cut=TEXT.index("é") + 1, seed=6)
@given(cut=st.integers(8, len(TEXT)), seed=st.integers(0, 50))
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_wherever_a_text_is_cut_it_is_spelt_out(engine: Engine, cut: int, seed: int) -> None:
    prompt = TEXT[:cut]
    generation = write(engine, prompt, sampling=seeded(seed), stop=Stop(max_tokens=5, ignore_eog=True))
    branch = generation.branches[0]
    assert whole(engine, generation).rstrip("\ufffd") == (prompt + branch.text).rstrip("\ufffd")


def first_token(engine: Engine, *wanted: str) -> Any:
    """A callback for the first token: the likeliest is the first of ``wanted``, then the next."""
    ids = [engine.tokenize_continuation(text)[0] for text in wanted]

    def callback(logits: Any, view: BranchView) -> None:
        if not view.ids:
            for rank, token in enumerate(ids):
                logits[token] += 1000.0 - 100.0 * rank

    return callback


@pytest.mark.parametrize("moved", [False, True])
def test_a_first_token_that_is_taken_back_is_healed_again(engine: Engine, moved: bool) -> None:
    generation = engine.submit(
        Request(
            CUT, heal=True, stop=RULE, sampling=Sampling(temperature=0.0, banned_phrases=("fox",)),
            logits_callback=first_token(engine, " fox", " ran"),
        )
    )  # fmt: skip
    (branch,) = generation.branches
    if moved:
        note = (*generation.prompt_ids[:1], *engine.tokenize_continuation(" There was a little"))
        branch.set_prompt(note)
    finish(engine, generation)
    assert branch.bans
    assert engine.detokenize(branch.ids)[branch.overlap :] == branch.text


def test_a_regular_expression_goes_on_behind_text_that_is_held(engine: Engine) -> None:
    for stop in (Stop(max_tokens=12), Stop(max_tokens=12, strings=("x zzz",))):
        generation = write(
            engine, CUT, n=1, stop=SHORT, sampling=GREEDY, logits_callback=first_token(engine, " fox")
        )
        generation.branches[0].reroll(sampling=Sampling(temperature=0.0, regex="x and y"), stop=stop)
        finish(engine, generation)
        assert generation.branches[0].text == "x and y"
