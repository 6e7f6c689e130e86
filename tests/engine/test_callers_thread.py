"""Work whose length the caller decides is done on the caller's thread, before the engine hears of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.engine import constraints
from srbwriter.engine.engine import Engine
from srbwriter.engine.logprobs import score
from srbwriter.engine.model import Model
from srbwriter.engine.prompt import typed
from srbwriter.engine.types import Request, Stop

from .support import PROMPT, SMALL, WAIT, ask, drive, lengths, long_prompt, seeded, stepped

TYPED = "The rain fell on the roof, and nobody came. " * 20
RULE = Stop(max_tokens=6, ignore_eog=True)


@pytest.fixture
def tokenised(threaded: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[bool, list[int]]]:
    """Lengths of the texts that were made tokens: on the engine's own thread, and elsewhere."""
    found: dict[bool, list[int]] = {True: [], False: []}
    tokenize = Model.tokenize

    def recorded(self: Model, text: str, *more: Any, **named: Any) -> list[int]:
        found[threading.current_thread() is threaded._thread].append(len(text))
        return tokenize(self, text, *more, **named)

    monkeypatch.setattr(Model, "tokenize", recorded)
    yield found


@pytest.mark.parametrize("prompt", [PROMPT, "Once upon a tim"])
@pytest.mark.parametrize("heal", [False, True])
def test_typed_text_is_tokenised_by_who_types_it(
    threaded: Engine, tokenised: dict[bool, list[int]], prompt: str, heal: bool
) -> None:
    generation = threaded.submit(Request(prompt, n=2, sampling=seeded(2), stop=RULE, heal=heal))
    (first, second) = generation.wait(WAIT).branches
    first.append(TYPED)
    first.append(TYPED, go_on=True)
    generation.wait(WAIT)
    assert max(tokenised[False]) >= len(TYPED)
    assert max(tokenised[True], default=0) <= 16
    assert TYPED * 2 in first.text
    assert threaded.detokenize(first.ids)[first.overlap :] + first.buffer.tail == first.text
    first.rewind(chars=len(first.text) - first.text.index("nobody") - 3)  # "nob": amid a typed word
    generation.wait(WAIT)
    assert max(tokenised[True], default=0) <= 16
    assert second.error is None


def test_going_back_into_typed_text_keeps_its_tokens(threaded: Engine) -> None:
    generation = threaded.submit(Request(PROMPT, sampling=seeded(2), stop=RULE))
    (branch,) = generation.wait(WAIT).branches
    before = branch.ids
    branch.append(" The rain fell.")
    threaded.flush()
    typed_ids = branch.ids
    branch.set_stop(Stop(max_tokens=0))
    branch.rewind(chars=len(" fell."))
    generation.wait(WAIT)
    assert branch.text.endswith(" The rain")
    assert branch.ids == typed_ids[: len(branch.ids)]
    assert len(before) < len(branch.ids) < len(typed_ids)


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_every_token_of_typed_text_knows_where_it_ends(engine: Engine, text: str) -> None:
    ids, ends, _ = typed(engine.model, text)
    assert len(ids) == len(ends)
    assert list(ends) == sorted(ends)
    assert not ends or ends[-1] == len(text)
    for count, end in enumerate(ends, 1):
        spelt = engine.detokenize(ids[:count])
        if "\ufffd" not in spelt:
            assert spelt == text[:end]
    assert engine.detokenize(ids) == text


def test_the_index_of_pieces_is_made_by_who_wants_a_word_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[threading.Thread]()
    init = constraints.PieceIndex.__init__

    def recorded(self: Any, pieces: Any) -> None:
        made.append(threading.current_thread())
        init(self, pieces)

    monkeypatch.setattr(constraints.PieceIndex, "__init__", recorded)
    with Engine.load(bundled_model(), SMALL) as engine:
        assert not made
        generation = engine.submit(Request(PROMPT, n=2, stop=RULE, heal=True))
        generation.wait(WAIT).branches[0].append(" The rai", go_on=True)
        generation.wait(WAIT)
        assert made == [threading.current_thread()]


# ---- probabilities


@given(st.integers(0, 2**32), st.integers(1, 100), st.integers(1, 3000))
def test_the_likeliest_are_found_without_looking_at_all(seed: int, best: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(0, 4, size).astype(np.float32)
    if seed % 3 == 0:
        row = np.round(row)  # ties
    if seed % 5 == 0:
        row[rng.integers(0, size, size // 2)] = -np.inf
    found = score(row, 0, best)
    order = np.sort(row)[::-1][:best]
    assert [float(row[token]) for token, _ in found.top] == order.tolist()
    assert len({token for token, _ in found.top}) == min(best, size)


def test_a_prompt_that_is_scored_takes_little_of_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a vocabulary of 128k tokens the rows of one step would take 30 ms; a writer beside waits for few."""
    with stepped(chunk=512) as engine:
        writer = ask(engine, tokens=None)
        drive(engine, lambda: lengths(writer)[0] > 3)
        most = engine._scheduler.decoder.scored_rows
        assert most * engine.info.n_vocab >= 4_000_000 or most >= 512
        monkeypatch.setattr(engine._scheduler.decoder, "scored_rows", 10)
        scored = ask(engine, long_prompt(engine, 100), tokens=0, prompt_logprobs=1)
        before = lengths(writer)[0]
        drive(engine, lambda: scored.done)
        assert lengths(writer)[0] - before >= 9
        assert len(scored.prompt_logprobs) == 99
