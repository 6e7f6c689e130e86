"""What is gone is told apart from the parameters there are, and from its own neutral values."""

from __future__ import annotations

from typing import Any

import pytest

from srbwriter.engine.compat import BY_GONE_NAME, GONE, replace_gone
from srbwriter.engine.parameters import BY_NAME
from srbwriter.engine.types import InvalidRequest


def test_what_is_gone_is_no_parameter() -> None:
    assert not set(BY_NAME) & set(BY_GONE_NAME)


@pytest.mark.parametrize("gone", GONE, ids=lambda gone: gone.names[0])
def test_what_is_gone_asks_for_nothing_by_default(gone: Any) -> None:
    for name in gone.names:
        for value in (*gone.neutral, None, "", []):
            assert replace_gone({name: value}) == {}


def test_what_is_gone_is_emulated_ignored_or_refused() -> None:
    changes = replace_gone({"penalize_nl": True, "top_k": 5, "do_sample": False, "sampler_order": [6, 3, 2]})
    assert changes == {"temperature": 0.0, "samplers": ("penalties", "top_p", "min_p")}
    assert replace_gone({"min_temp": 0.5, "max_temp": 1.5}) == {"temperature": 1.0, "dynatemp_range": 0.5}
    for wrong in ({"num_beams": 4}, {"tfs_z": "0.9"}, {"top_a": [0, 0.5]}, {"use_beam_search": True}):
        with pytest.raises(InvalidRequest, match="is not possible here") as refused:
            replace_gone(wrong)
        assert refused.value.field in wrong
