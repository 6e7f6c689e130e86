"""The surprise of a branch's tokens as signs."""

from __future__ import annotations

import math

import pytest

from srbwriter.tui.widgets.curves import sparkline


@pytest.mark.parametrize(
    ("bits", "signs"),
    [
        ([], ""), ([None, None], ""), ([0.0, 0.9, 1.0, 6.9, 7.0, 40.0], "▁▁▂▇██"), ([3.5, None], "▄"),
        ([1.5, None, 2.5], "▂ ▃"), ([0.5, 2.6, 4.5, 4.6, 0.2], "▂▅▁"), ([0.5] * 17, "▁▁▁"),
    ],
)  # fmt: skip
def test_a_sign_is_a_bit_higher_than_the_one_before(bits: list[float | None], signs: str) -> None:
    logprobs = [None if value is None else -value * math.log(2) for value in bits]
    assert sparkline(logprobs, 4 if len(bits) in (5, 17) else 16) == signs
