"""The figures of a model: windows, likelihood, samples; on the bundled model where it takes a model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from tools.demo_model import evaluate


@given(length=st.integers(2, 3000), window=st.integers(2, 64), data=st.data())
def test_every_token_but_the_first_is_scored_once(length: int, window: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, window - 1))
    seen: list[int] = []
    for begin, first, end in evaluate.windows(length, window, stride):
        assert begin < first < end <= begin + window
        seen += range(first, end)
        # After the first window a token sees at least what the stride leaves of it.
        assert begin == 0 or first - begin >= min(window - stride, first)
    assert seen == list(range(1, length))


def test_nats_are_minus_the_log_of_the_softmax() -> None:
    logits = np.array([[0.0, math.log(3.0)], [1000.0, 0.0]], np.float32)
    assert evaluate.nats(logits, np.array([1, 0])) == pytest.approx(math.log(4 / 3), abs=1e-6)


def test_the_bundled_model_finds_a_story_likelier_than_its_words_shuffled(tmp_path: Path) -> None:
    story = "Once upon a time, there was a little girl named Lily. She liked to play in the park."
    plain, mixed = tmp_path / "told.txt", tmp_path / "mixed.txt"
    plain.write_text(story)
    mixed.write_text(" ".join(sorted(story.split())))
    assert (
        evaluate.bits_per_byte(bundled_model(), plain) < 1.0 < evaluate.bits_per_byte(bundled_model(), mixed)
    )


def test_the_last_word_is_judged_only_where_it_is_whole() -> None:
    assert evaluate.whole_words({"text": " a big hou", "end": "length"}) == " a big"
    assert evaluate.whole_words({"text": " a big house", "end": "stop"}) == " a big house"


def test_samples_are_judged_together() -> None:
    branch = {"text": "the cat sat on it", "tokens": 6, "end": "stop"}
    other = {"text": "a dgo ran off fast", "tokens": 4, "end": "stop"}
    figures = evaluate.judge([[branch, other]], frozenset("the cat sat on it a ran off fast".split()))
    assert figures["word_share"] == 0.9
    assert figures["distinct_4"] == 1.0
    assert figures["mean_tokens"] == 5
    assert figures["loop_share"] == 0
    assert figures["ended_share"] == 1
