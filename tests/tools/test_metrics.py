"""Words, loops and overlap of sampled text."""

from __future__ import annotations

import pytest

from tools.demo_model import metrics

EIGHT = "one two three four five six seven eight"


def test_words_keep_their_apostrophes_and_lose_their_case() -> None:
    assert metrics.words("Don’t, said TIM's 3 dogs—no!") == ["don't", "said", "tim's", "dogs", "no"]


def test_a_word_seen_once_is_not_in_the_list() -> None:
    assert metrics.word_list(["the cat", "The dgo"]) == {"the"}


def test_known_share_counts_words_over_all_samples() -> None:
    assert metrics.known_share(["the cat", "a the"], frozenset({"the"})) == 0.5
    assert metrics.known_share(["", "12"], frozenset({"the"})) == 0.0


@pytest.mark.parametrize(
    ("sample", "looped"),
    [(f"{EIGHT} and {EIGHT}", True), (f"{EIGHT} and {EIGHT[:-6]}", False), ("no " * 9, True), ("", False)],
)
def test_a_loop_is_a_run_of_eight_words_that_comes_again(sample: str, looped: bool) -> None:
    assert metrics.loops(sample) is looped


def test_distinct_is_one_for_branches_that_share_nothing_and_falls_for_copies() -> None:
    one, other = "a b c d e", "f g h i j"
    assert metrics.distinct([one, other]) == 1.0
    assert metrics.distinct([one, one]) == 0.5
    assert metrics.distinct(["a b c"]) == 0.0


def test_overlap_is_the_mean_over_pairs() -> None:
    one, other = "a b c d e", "f g h i j"
    assert metrics.overlap([one, one]) == 1.0
    assert metrics.overlap([one, one, other]) == pytest.approx(1 / 3)
    assert metrics.overlap(["a b c d", "a b c"]) == 0.0
