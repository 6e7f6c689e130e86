"""How far a test goes: through a part of a grid or of a search, or through all of it with ``--full``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

MOST_EXAMPLES, FEW_EXAMPLES = 100, 25
"""Examples of a Hypothesis test that names no number, with ``--full`` and without."""

few_or_all = pytest.mark.parametrize(
    "full",
    [
        pytest.param(False, id="few"),
        pytest.param(True, id="all", marks=[pytest.mark.full, pytest.mark.timeout(1200)]),
    ],
)
"""A test at a few moments, and once more at every one with ``--full``."""


def examples(most: int, few: int | None = None) -> int:
    """Return the examples that Hypothesis tries: ``most`` with ``--full``, ``few`` or a quarter without."""
    if few is not None and settings().max_examples < MOST_EXAMPLES:
        return few
    return max(1, most * settings().max_examples // MOST_EXAMPLES)


def some_of(cases: Iterable[Any], plain: Collection[Any]) -> list[Any]:
    """Return ``cases`` as parameters; those that are not in ``plain`` run with ``--full`` only.

    A tuple is a case of several arguments.
    """
    return [
        case
        if case in plain
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.full)
        for case in cases
    ]
