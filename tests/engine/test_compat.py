"""What is missing here is told apart from the parameters, and from its own neutral values."""

from __future__ import annotations

from typing import Any

import pytest

from srbwriter.engine.compat import MISSING, read_foreign
from srbwriter.engine.parameters import BY_NAME
from srbwriter.engine.types import InvalidRequest


def test_what_is_missing_is_no_parameter() -> None:
    assert not set(BY_NAME) & set(MISSING)


@pytest.mark.parametrize("name", MISSING)
def test_neutral_values_mean_nothing(name: str) -> None:
    neutral = MISSING[name].neutral
    for value in (*((0.7,) if neutral is None else neutral), None, "", []):
        assert read_foreign({name: value}) == {}


def test_what_sillytavern_sends_is_read() -> None:
    changes = read_foreign({"penalize_nl": True, "do_sample": False, "sampler_order": [6, 3, 2]})
    assert changes == {"temperature": 0.0, "samplers": ("penalties", "top_p", "min_p")}
    warm = {"dynatemp_low": 0.5, "dynatemp_high": 1.5}
    assert read_foreign(warm) == {"temperature": 1.0, "dynatemp_range": 0.5}
    assert read_foreign({**warm, "dynamic_temperature": False}) == {}


@pytest.mark.parametrize(
    "wrong",
    [{"num_beams": 4}, {"tfs_z": "0.9"}, {"top_a": [0, 0.5]}, {"use_beam_search": True}, {"ebnf": "x"}],
    ids=str,
)
def test_what_would_change_the_text_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="is not possible here") as refused:
        read_foreign(wrong)
    assert refused.value.field in wrong
