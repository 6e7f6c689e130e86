"""A story that the program wrote, damaged four hundred times: nothing is raised, changed or kept quiet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.story.corruptions import KINDS, Outcome, every_case, make_bases, run, table


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    folder = tmp_path_factory.mktemp("damage")
    bases = make_bases(folder)
    return [run(kind, seed, bases, folder) for kind, seed in every_case()]


def those(outcomes: list[Outcome], test: Callable[[Outcome], object]) -> str:
    """The outcomes that pass ``test``, in words."""
    return "\n".join(str(outcome) for outcome in outcomes if test(outcome))


def test_damage_of_each_kind_raises_nothing_and_changes_nothing(tmp_path: Path) -> None:
    bases = make_bases(tmp_path)
    outcomes = [run(kind, 0, bases, tmp_path) for kind in KINDS]
    assert not those(outcomes, lambda o: o.faults or o.changed)


@pytest.mark.full
def test_nothing_is_raised_but_what_is_said_in_words(outcomes: list[Outcome]) -> None:
    assert len(outcomes) == 400
    assert not those(outcomes, lambda o: o.faults)
    refused = [outcome for outcome in outcomes if outcome.refused]
    assert all(outcome.refused == "TooNew" for outcome in refused), those(refused, bool)
    assert len(refused) <= 4  # a bit of the version in the header makes a story of a later one


@pytest.mark.full
def test_a_damaged_file_and_its_log_stay_as_they_are(outcomes: list[Outcome]) -> None:
    assert not those(outcomes, lambda o: o.changed)


@pytest.mark.full
def test_every_text_that_is_not_what_was_written_is_named(outcomes: list[Outcome]) -> None:
    assert not those(outcomes, lambda o: o.unnamed and not o.uncounted)
    assert sum(bool(outcome.unnamed) for outcome in outcomes) < 12, table(outcomes)
    assert not those(outcomes, lambda o: o.misplaced and o.kind != "of an older version")
    assert not those(outcomes, lambda o: o.damaged and not o.checked)
    # the damage is real, and most of it is got over
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    assert wrong > 100, table(outcomes)
    texts = [outcome for outcome in outcomes if outcome.kind == "a bit of a text"]
    assert sum(outcome.damaged for outcome in texts) > 20
    assert not those(texts, lambda o: o.wrong)  # the search index has another copy


@pytest.mark.full
def test_not_everything_is_called_doubtful(outcomes: list[Outcome]) -> None:
    for kind in KINDS:
        named = [outcome.named / outcome.nodes for outcome in outcomes if outcome.kind == kind]
        most = 0.75 if kind in ("cut short", "many bits") else 0.4
        assert sum(named) / len(named) < most, f"{kind}\n{table(outcomes)}"
