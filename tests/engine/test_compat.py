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
        for value in gone.neutral:
            assert replace_gone({name: value}) == ({}, [])


def test_what_is_gone_is_told() -> None:
    changes, notes = replace_gone({"tfs_z": 0.9, "top_k": 5, "do_sample": False, "sampler_order": [6, 3, 2]})
    assert changes == {"temperature": 0.0, "samplers": ("penalties", "top_p", "min_p")}
    assert len(notes) == 1
    assert notes[0].startswith("tfs_z is ignored")
    assert replace_gone({"min_temp": 0.5, "max_temp": 1.5})[0] == {"temperature": 1.0, "dynatemp_range": 0.5}
    with pytest.raises(InvalidRequest, match="num_beams"):
        replace_gone({"num_beams": 4})
