"""A story that the program wrote, damaged in each way: nothing is raised, changed or kept quiet."""

from __future__ import annotations

from pathlib import Path

from tests.story.corruptions import KINDS, make_bases, run


def test_damage_of_each_kind_raises_nothing_changes_nothing_and_is_named(tmp_path: Path) -> None:
    bases = make_bases(tmp_path)
    outcomes = [run(kind, 0, bases, tmp_path) for kind in KINDS]
    assert not [outcome for outcome in outcomes if outcome.faults or outcome.changed]
    assert not [outcome for outcome in outcomes if outcome.unnamed and not outcome.uncounted]
